"""Readers of traces: from a profile to the launches of each device and their operations.

What is where, in the order in which to read it:

- parts.py: the types and functions that all readers share
- xspace.py: a reader of the profiler's own format
- cpu.py: traces of CPUs
- gpu.py: traces of GPUs
- tpu.py: traces of TPUs
- executes.py: to which launch an event on a thread of the host belongs
- launches.py: which runs, one on each device, are the same launch
- sequences.py: launches of a trace that names none
- members.py: the members of collectives
- files.py: captured profiles in files
- protos.py: the programs that a profile has
- waits.py: how long devices waited in the collectives of a launch
- contents.py: the contents of one trace: its devices, and the launches of each program
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtop.traces import cpu, gpu, tpu
from jaxtop.traces.parts import (
    MOST_READ,
    LaunchSpan,
    Op,
    OperationRuns,
    TooLarge,
    TraceContents,
    WantedCollectives,
    no_pause,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LaunchSpan", "Op", "OperationRuns", "TraceContents", "WantedCollectives", "read"]

_READERS: dict[str, Callable[[Any, WantedCollectives, dict[int, int], TraceContents], None]] = {
    "cpu": cpu.read,
    "gpu": gpu.read,
    "cuda": gpu.read,
    "rocm": gpu.read,
    "tpu": tpu.read,
}


def read(
    platform: str,
    profile: Any,
    wanted: WantedCollectives,
    ordinals: dict[int, int],
    *,
    has_names: bool = False,
    most: int = MOST_READ,
    pause: Callable[[], object] = no_pause,
) -> TraceContents:
    """Read a profile of this platform, with the names of operations only if they are asked for.

    `ordinals` maps a device's number in it to the device's id. Nothing is read of a trace with more than
    `most` events. `pause` is called between events.
    """
    reader = _READERS.get(platform)
    seen = TraceContents(has_names, most=most, pause=pause)
    if reader is not None:
        try:
            reader(profile, wanted, ordinals, seen)
        except TooLarge:  # no launch that was read so far is known to be whole
            return TraceContents(events=seen.events, is_too_large=True)
    return seen
