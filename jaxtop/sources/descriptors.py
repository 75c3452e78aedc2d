"""The file descriptors left for connections: the rest of the process needs some, too."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress

# Reserved for files, the terminal and the sockets that every viewer has.
RESERVE = 16
RECOUNT_AFTER = 0.05
# This number is enough for thousands of hosts, and still listed in a millisecond.
MAX_DESCRIPTORS = 16_384


class Descriptors:
    """How many descriptors are left: counted again once all of the last count are taken."""

    def __init__(self) -> None:
        self._left = 0
        self._counted_at = 0.0

    @property
    def limit(self) -> int:
        """The most descriptors that this process may have open."""
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft

    def take(self, count: int) -> bool:
        """Reserve `count` descriptors; return whether they are available."""
        now = time.monotonic()
        if self._left < count and now - self._counted_at >= RECOUNT_AFTER:
            self._counted_at = now
            self._left = self.limit - RESERVE - _open()
        if self._left < count:
            return False
        self._left -= count
        return True


def raise_limit() -> None:
    """Raise the limit of this process to what its user may have, up to `MAX_DESCRIPTORS`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open() -> int:
    try:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208 - only names: Paths would cost ten times as much
    except OSError:
        return 0  # some systems do not list them: then only the limit counts
