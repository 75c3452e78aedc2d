"""Where the hours of a process went: each moment since its start belongs to one kind."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from jaxtop.wire.bounds import Count, TimeMs

# In this order in `spent_ms`; new kinds go to the end. "cached" is compiling with a program found in JAX's
# persistent cache, "input" waiting for input, "ending" from the last launch on in a script that has ended.
SPENT_ON = (
    "starting", "compiling", "cached", "restoring", "stepping", "evaluating", "saving", "input", "garbage",
    "stalled", "ending", "other",
)  # fmt: skip
STARTING, STEPPING, STALLED, OTHER = "starting", "stepping", "stalled", "other"
MOST_POINTS, MOST_SAVES, MOST_KINDS = 128, 64, 64

SpentMs = Annotated[tuple[Count, ...], Meta(max_length=MOST_KINDS)]


class LedgerPoint(Struct, frozen=True, array_like=True):
    """What the process had spent up to a time, in the order of `SPENT_ON`."""

    at_ms: TimeMs
    spent_ms: SpentMs


class Save(Struct, frozen=True, array_like=True):
    """A checkpoint: when it began, for how long it blocked the script, and when it was known to be complete.

    `committed_ms` is None while that is not known; `step` is the number of steps done before it. `seen_by` is
    "orbax", "phase" for the script's own word, or "stack" for functions that save. `written_bytes` is what
    the process wrote meanwhile, to files and object stores; None until it is complete.
    """

    at_ms: TimeMs
    blocked_ms: Count
    committed_ms: TimeMs | None = None
    step: Count | None = None
    seen_by: str = ""
    written_bytes: Count | None = None


class Ledger(Struct, frozen=True, omit_defaults=True, tag="ledger"):
    """What a process has spent its time on: `spent_ms` sums up to the time from its start to `at_ms`.

    `past` has earlier points, the oldest first. They are sent to new viewers only: later ones add their own.
    """

    at_ms: TimeMs
    started_ms: TimeMs
    spent_ms: SpentMs = ()
    steps: Count | None = None
    lineage: str = ""
    saves: Annotated[tuple[Save, ...], Meta(max_length=MOST_SAVES)] = ()
    past: Annotated[tuple[LedgerPoint, ...], Meta(max_length=MOST_POINTS)] = ()
    # Whether the script has ended: nothing follows.
    is_over: bool = False
