"""The lock of the script's own profiler, held during a window, which ends early if the script wants it."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class WakingLock:
    """A replacement for a real lock: to acquire it wakes the profiler's thread, then waits for the real lock.

    So the script's `start_trace`, which takes this lock, waits only until the window is closed.
    """

    def __init__(self, real: Any, wake: Callable[[], None]) -> None:
        self.real = real
        self.is_wanted = False
        self._wake = wake

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self.is_wanted = True
        with suppress(Exception):
            self._wake()
        return bool(self.real.acquire(blocking, timeout))

    def release(self) -> None:
        self.real.release()

    def locked(self) -> bool:
        return bool(self.real.locked())

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class HeldLock:
    """The script's lock, taken for a window and restored after it: `with HeldLock(...) as lock`.

    `lock` is None if the lock was already taken; no window may open then. While we hold the real lock, the
    `WakingLock` replaces it. So its presence alone shows a forked child that it has to restore the lock.
    """

    def __init__(self, owner: Any, wake: Callable[[], None]) -> None:
        self._owner = owner
        self._waking = WakingLock(owner.lock, wake)
        self._is_ours = False

    def __enter__(self) -> WakingLock | None:
        self._owner.lock = self._waking
        self._is_ours = self._waking.real.acquire(blocking=False)
        if not self._is_ours:
            self._put_back()
        return self._waking if self._is_ours else None

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            self._waking.real.release()
            self._put_back()

    def _put_back(self) -> None:
        if self._owner.lock is self._waking:
            self._owner.lock = self._waking.real

    def after_fork(self) -> None:
        """Replace the lock with a new one in a forked child, where no thread can release the real one.

        It must not wait, because that thread may have been anywhere in this class when the process forked.
        """
        if self._owner.lock is self._waking:
            self._owner.lock = threading.Lock()
