"""When native stacks are read: once the process hangs, on a thread of its own.

The file of a library may lie on a file system that does not answer, which may be why the process hangs. So
nobody waits for that thread.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base import debuglog
from jaxtop_agent.core import threads
from jaxtop_agent.core.board import off_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jaxtop_agent.core.board import Board
    from jaxtop_agent.native.sampling import NativeThread

NAME = "native stacks"
# Between two samplings, and between two while the process hangs if its threads wait elsewhere by then.
SOONEST_S, AGAIN_S = 20.0, 60.0
# A sampling that takes longer reads a file that does not come.
LATE_S = 10.0
LATE = "waiting: for the file of a library"
LOOK_S = 0.02


class NativeStacks:
    """Has native stacks read and stores them while they are current.

    `begin`, `forget` and `current` are called on the threads that read stacks, `_sample` is a thread.
    """

    def __init__(
        self,
        board: Board,
        own_tasks: Callable[[], Collection[int]],
        start: Callable[[str, Callable[[], None]], None],
    ) -> None:
        self._board, self._own_tasks, self._start = board, own_tasks, start
        self._found: tuple[NativeThread, ...] = ()
        self._began_at: float | None = None
        self._ended_at: float | None = None
        self._is_sampled = False  # since the process hangs
        self._off = ""
        self.number = 0  # how many samplings have ended

    def begin(self, now: float) -> None:
        """Start to read them, unless they are being read or were read a short while ago."""
        if self._off:
            return
        if self._began_at is not None:
            if now - self._began_at > LATE_S:
                self._board.sources[NAME] = LATE
            return
        if not self._is_due(now):
            return
        self._began_at, self._is_sampled = now, True
        try:
            self._start(NAME, self._sample)
        except Exception as error:  # no further thread can be started
            self._fail(error)

    def _is_due(self, now: float) -> bool:
        if self._ended_at is None:
            return True
        age = now - self._ended_at
        if not self._is_sampled:
            return age >= SOONEST_S
        return age >= AGAIN_S and not (self._found and all(each.is_current for each in self._found))

    def wait(self, seconds: float) -> None:
        """Wait until they were read, at most so long."""
        end = time.monotonic() + seconds
        while self._began_at is not None and time.monotonic() < end:
            time.sleep(LOOK_S)

    def forget(self) -> None:
        """Drop them: the process goes on."""
        self._found, self._is_sampled = (), False

    def current(self) -> tuple[dict[int, wire.NativeStack], list[wire.Thread]]:
        """Return the stacks of Python threads by their idents, and threads that Python does not know.

        Threads that no longer wait at the same place are left out.
        """
        found, idents = [each for each in self._found if each.is_current], _idents()
        known = {idents[each.task]: each.stack for each in found if each.task in idents}
        return known, [
            wire.Thread(each.name, False, (), native=each.stack) for each in found if each.task not in idents
        ]

    def _sample(self) -> None:
        try:
            # Here: a healthy process never needs it, and a stuck import holds up this thread only.
            from jaxtop_agent.native import sampling

            if why := sampling.why_not():
                self._off = self._board.sources[NAME] = f"off: {why}"
                return
            self._found = sampling.sample(self._own_tasks(), _idents())
            self._board.sources[NAME] = "on"
        except Exception as error:
            self._fail(error)
        finally:
            self.number += 1
            self._ended_at, self._began_at = time.monotonic(), None
            self._board.wakeups.publisher.set()

    def _fail(self, error: Exception) -> None:
        debuglog.warning(NAME, "native stacks are not read any more", error=error)
        self._off = self._board.sources[NAME] = off_reason(error)
        self._found, self._began_at = (), None


def _idents() -> dict[int, int]:
    """Return the idents of Python's threads by the ids that the kernel gave them."""
    known = {threads.fact(each, "_native_id", 0): ident for ident, each in threads.listed().items()}
    main = threads.main_ident()
    if main is not None:
        known[os.getpid()] = main
    return known
