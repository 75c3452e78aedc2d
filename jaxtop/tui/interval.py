"""How often the processes tell of themselves: the stops of the keys, and the words for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

# Milliseconds between two pulses; agents take from 100 up to the last one.
STOPS = (500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000)
USUAL = 1_000


def stop_after(interval_ms: int, by: int) -> int | None:
    """The next longer interval, or the next shorter one; None at the last of them."""
    if by > 0:
        return next((stop for stop in STOPS if stop > interval_ms), None)
    return next((stop for stop in reversed(STOPS) if stop < interval_ms), None)


def every(intervals_ms: Collection[int]) -> str:
    """`every 2s`, or from the shortest to the longest."""
    ends = dict.fromkeys((min(intervals_ms), max(intervals_ms)))
    return "every " + "–".join(f"{each / 1000:g}s" for each in ends)
