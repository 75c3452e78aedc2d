"""The pulse interval of the processes: the values that the keys select, and its text form."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

# Milliseconds between two pulses. Agents accept 100 up to the last of these.
STOPS = (500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000)
USUAL = 1_000


def stop_after(interval_ms: int, by: int) -> int | None:
    """Return the next longer or the next shorter interval; None if there is none."""
    if by > 0:
        return next((stop for stop in STOPS if stop > interval_ms), None)
    return next((stop for stop in reversed(STOPS) if stop < interval_ms), None)


def every(intervals_ms: Collection[int]) -> str:
    """Return `every 2s`, or the range from the shortest to the longest interval."""
    ends = dict.fromkeys((min(intervals_ms), max(intervals_ms)))
    return "every " + "–".join(f"{each / 1000:g}s" for each in ends)
