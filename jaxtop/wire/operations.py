"""The operations of a program in one window of the profiler: where the time of its launches went."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import Count, TimeMs  # noqa: TC001 - msgspec reads the annotations


class Operation(Struct, frozen=True, array_like=True):
    """One operation: its time and its runs on all local devices together, in all launches of the window.

    `kind` and `source` (a line such as "train.py:12") are empty where they are unknown. `flops` and `bytes`
    are those of one run; None where the compiler's text does not show them. `runs` is None where neither the
    program nor the trace shows it.
    """

    op: str
    kind: str
    source: str
    time_us: Count
    runs: Count | None = None
    flops: Count | None = None
    bytes: Count | None = None


class Operations(Struct, frozen=True, omit_defaults=True, tag="operations"):
    """The operations of a program that took most time in a window, on the local devices of one process.

    `launches` counts launches on each device: one on four devices counts four. `idle_us` is the time of
    these launches in which no operation ran. `rest` counts the operations that are not listed, and `rest_us`
    is their time by kind. Operations that ran side by side each count in full.
    """

    at_ms: TimeMs
    program: str
    fingerprint: str | None
    launches: Count = 0
    operations: tuple[Operation, ...] = ()
    idle_us: Count = 0
    rest: Count = 0
    rest_us: dict[str, Count] = {}
