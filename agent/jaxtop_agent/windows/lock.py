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

    `door` is None if the lock was taken, which is then no time for a window.
    """

    def __init__(self, owner: Any, ring: Callable[[], None]) -> None:
        self._owner = owner
        self._ring = ring
        self._door: DoorLock | None = None
        self._once = threading.Lock()

    def __enter__(self) -> DoorLock | None:
        # The door first, the lock after it: who comes between the two finds the door.
        door = DoorLock(self._owner.lock, self._ring)
        self._owner.lock = door
        if door.real.acquire(blocking=False):
            self._door = door
        else:
            self._put_back(door)
        return self._door

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Put the real lock back, open; also in a forked child, whose thread for it does not exist."""
        with self._once:
            door, self._door = self._door, None
        if door is not None:
            self._put_back(door)
            door.real.release()

    def _put_back(self, door: DoorLock) -> None:
        if self._owner.lock is door:
            self._owner.lock = door.real
