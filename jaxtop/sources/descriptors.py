"""How many file descriptors connections may still take: the rest of the process needs some, too."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress

# Left for files, the terminal and the sockets that every viewer has.
RESERVE = 16
RECOUNT_AFTER = 0.05
# Enough for thousands of hosts, and listed in a millisecond.
ENOUGH = 16_384


class Descriptors:
    """Counts what is open; between two counts it remembers what was taken."""

    def __init__(self) -> None:
        self._left = 0
        self._counted_at = 0.0

    @property
    def limit(self) -> int:
        """The most that this process may have open."""
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return ENOUGH if soft == resource.RLIM_INFINITY else soft

    def take(self, count: int) -> bool:
        """Whether so many more may be opened now."""
        now = time.monotonic()
        if self._left < count and now - self._counted_at >= RECOUNT_AFTER:
            self._counted_at = now
            self._left = self.limit - RESERVE - _open()
        if self._left < count:
            return False
        self._left -= count
        return True

    def give(self, count: int) -> None:
        """Take in that so many were closed."""
        self._left += count


def raise_limit() -> None:
    """Allow this process as many descriptors as its user may have, up to what is enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open() -> int:
    try:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208 - names alone: a Path each would cost ten times as much
    except OSError:
        return 0  # a system that does not list them: the limit alone counts
