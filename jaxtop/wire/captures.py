"""A full profile of one process, which a viewer asks for and then fetches in parts."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

# The bounds of a capture: ten minutes, this many bytes, in parts that fit into an answer.
LONGEST_MS, MOST_BYTES, LEAST_BYTES = 600_000, 1 << 30, 1 << 16
PART_BYTES = 128 << 10
MOST_PARTS = MOST_BYTES // PART_BYTES

# The phases of a capture in a process, in order. FAILED may follow each of the others.
WAITING, OPEN, STOPPING, PACKING, READY, FAILED = "waiting", "open", "stopping", "packing", "ready", "failed"


class CaptureRequest(Struct, frozen=True, omit_defaults=True):
    """What a viewer asks for. It chooses the id, which all hosts of a capture share.

    The capture ends after `steps` steps, if given, after `duration_ms`, or when its trace may have
    `most_bytes`. `part` is the part of the finished trace that is asked for; None asks for the phase alone.
    """

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    duration_ms: Annotated[int, Meta(ge=1, le=LONGEST_MS)] = LONGEST_MS
    most_bytes: Annotated[int, Meta(ge=LEAST_BYTES, le=MOST_BYTES)] = MOST_BYTES
    steps: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    part: Annotated[int, Meta(ge=0, lt=MOST_PARTS)] | None = None


class CaptureState(Struct, frozen=True, omit_defaults=True):
    """How far a process is, and the part that was asked for.

    `for_ms` is how long it has been in this phase. `text` is why it failed, or why it ended early. A finished
    trace has `size` bytes, packed with zlib into `parts` parts; `lasted_us` is how long the profiler was on.
    """

    phase: str
    for_ms: int = 0
    text: str = ""
    size: Annotated[int, Meta(ge=0)] = 0
    parts: Annotated[int, Meta(ge=0, le=MOST_PARTS)] = 0
    lasted_us: Annotated[int, Meta(ge=0)] = 0
    data: Annotated[bytes, Meta(max_length=PART_BYTES)] = b""
