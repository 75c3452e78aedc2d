"""A lock that no forked child inherits while another thread holds it."""

from __future__ import annotations

import threading

# Seconds. A fork waits no longer: the thread that holds the lock may itself wait for the one that forks.
LONGEST_WAIT = 1.0


class ForkLock:
    """A lock with what a fork does before and after: `hold`, then `go_on` in the parent."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._is_held = False

    def hold(self) -> None:
        """Before a fork, on the thread that forks: wait until the lock is free, and take it."""
        self._is_held = self.lock.acquire(timeout=LONGEST_WAIT)

    def go_on(self) -> None:
        """After a fork, in the parent: release the lock."""
        if self._is_held:
            self._is_held = False
            self.lock.release()
