"""The lock of the script's own profiler, held while a window is open, with a bell at the door."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class DoorLock:
    """Stands in front of a real lock: whoever wants it rings first, then waits for the real one.

    So the script's `start_trace`, which takes this lock, waits for no longer than the window needs to close.
    """

    def __init__(self, real: Any, ring: Callable[[], None]) -> None:
        self.real = real
        self.is_wanted = False
        self._ring = ring

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self.is_wanted = True
        with suppress(Exception):
            self._ring()
        return bool(self.real.acquire(blocking, timeout))

    def release(self) -> None:
        self.real.release()

    def locked(self) -> bool:
        return bool(self.real.locked())

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class HeldDoor:
    """The script's lock, taken for a window and put back after it: `with HeldDoor(...) as door`.

    `door` is None if the lock was taken, which is then no time for a window. While the real lock is ours, the
    door is in its place: so a forked child sees by the door alone that there is something to undo.
    """

    def __init__(self, owner: Any, ring: Callable[[], None]) -> None:
        self._owner = owner
        self._door = DoorLock(owner.lock, ring)
        self._is_ours = False

    def __enter__(self) -> DoorLock | None:
        self._owner.lock = self._door
        self._is_ours = self._door.real.acquire(blocking=False)
        if not self._is_ours:
            self._put_back()
        return self._door if self._is_ours else None

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            self._door.real.release()
            self._put_back()

    def _put_back(self) -> None:
        if self._owner.lock is self._door:
            self._owner.lock = self._door.real

    def forsake(self) -> None:
        """In a forked child: put a new lock in place of the door; no thread is left to open the real one.

        It waits for nothing: that thread may have been anywhere in here when the process forked.
        """
        if self._owner.lock is self._door:
            self._owner.lock = threading.Lock()
