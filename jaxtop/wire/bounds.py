"""The bounds of a message, and the error of bytes that exceed them.

Decoding enforces the bounds of single values, `checks.py` all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

if TYPE_CHECKING:
    from collections import Counter

# MAX_DEVICES is eight times the largest run that the viewer is measured with. MAX_PLACES bounds what a
# message unpacks to, with repetitions: it has room for sets of replica groups for every axis of a mesh.
MAX_DEVICES = 1 << 16
MAX_PLACES = 1 << 19
MAX_PROCESSES = 1 << 20
MAX_AXES = 32
MAX_DIMENSIONS = 64
MAX_SHARDINGS = 10_000
MAX_GROUPS = 100_000
MAX_OPERATIONS = 1_000
MAX_NATIVE_FRAMES = 1_000
# The year 2262: recordings store nanoseconds in 63 bits.
LATEST_S = (1 << 63) // 10**9

TimeMs = Annotated[int, Meta(ge=0, le=LATEST_S * 1000)]
TimeS = Annotated[float, Meta(ge=0, le=LATEST_S)]
# A larger absolute value makes sums and ranges overflow a machine word.
WireInteger = Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)]
# Small enough for sums over all functions of a process.
MAX_COUNT = 1 << 53
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
# A number that a finding rests on: no infinity, and no NaN.
Measure = Annotated[float, Meta(ge=-float(1 << 62), le=float(1 << 62))]
Process = Annotated[int, Meta(ge=0, le=MAX_PROCESSES)]
IntervalMs = Annotated[int, Meta(ge=1, le=86_400_000)]
SpanMs = Annotated[int, Meta(ge=0, le=86_400_000)]
AgentId = Annotated[str, Meta(max_length=256)]

NANOSECONDS = 1_000_000_000


class Unreadable(Exception):
    """Bytes that are not a valid message; the text says why."""


class NewerVersion(Unreadable):
    """A message of a newer jaxtop."""


# A bound on distinct reasons: a peer that sends ever new errors must not fill the memory with their counts.
MOST_REASONS = 100


def tally(rejected: Counter[str], reason: str) -> None:
    """Count a rejected message by its reason."""
    reason = reason[:200]
    rejected[reason if reason in rejected or len(rejected) < MOST_REASONS else "for other reasons"] += 1


def to_ns(at: float) -> int:
    """Return the time in nanoseconds; `to_seconds` converts it back exactly."""
    whole = int(at)
    return whole * NANOSECONDS + round((at - whole) * NANOSECONDS)


def to_seconds(ns: int) -> float:
    return ns / NANOSECONDS


def counted(amount: int) -> int:
    """Return what a field for counts may contain: sums of numbers that no honest peer sends are cut."""
    return min(max(0, amount), MAX_COUNT)
