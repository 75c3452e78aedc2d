"""The time of day, which never goes back: frames are kept in the order of their times."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_AHEAD = time.time() - time.clock_gettime(_CLOCK)


def steady() -> float:
    """Seconds since the epoch, by the time of day when this program began and a clock that nobody sets."""
    return _AHEAD + time.clock_gettime(_CLOCK)
