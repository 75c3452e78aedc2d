"""A wall clock that never goes back: frames are stored in the order of their times."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_AHEAD = time.time() - time.clock_gettime(_CLOCK)


def steady() -> float:
    """Return seconds since the epoch: the wall time at program start, plus a clock that is never set."""
    return _AHEAD + time.clock_gettime(_CLOCK)


def now_ms() -> int:
    """Return the same time in milliseconds, as messages carry it."""
    return int(steady() * 1000)
