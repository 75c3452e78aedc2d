"""One window: the profiler started and stopped, with the door of the script's own profiler held meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jaxtop_agent.core.clock import now_ms
from jaxtop_agent.core.waiting import wait
from jaxtop_agent.profiler.lock import HeldDoor

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.core.threads import Wake
    from jaxtop_agent.jaxprivate import Profiler

# How often an open window is looked at, to end it early.
LOOK_EVERY_S = 0.005


class InUse(Exception):
    """Somebody else uses the profiler now; there will be other times."""


class Taken:
    """What a window gave: its trace, when it began, how long it was open, and what that cost in CPU."""

    def __init__(self, at_ms: int, seconds: float, cpu: float, trace: Any) -> None:
        self.at_ms = at_ms
        self.seconds = seconds
        self.cpu = cpu
        self.trace = trace


class Sessions:
    """Takes windows, one at a time; the bell ends one early if the door rang it, or `is_over` says so."""

    def __init__(self, profiler: Profiler, bell: Wake) -> None:
        self._profiler = profiler
        self._bell = bell
        self._held: HeldDoor | None = None

    def take(self, seconds: float, is_over: Callable[[], bool]) -> Taken:
        """Keep a window open for so long, or until `is_over`; `InUse` if now is no time for one."""
        held = self._held = HeldDoor(self._profiler.state, self._bell.ring)
        try:
            with held as door:
                if door is None:
                    raise InUse("the script is starting or stopping a profile")
                if (who := self._profiler.in_use()) is not None:
                    raise InUse(who)
                return self._open(seconds, lambda: door.is_wanted or is_over())
        finally:
            self._held = None

    def _open(self, seconds: float, is_over: Callable[[], bool]) -> Taken:
        cpu = time.thread_time()
        at_ms, began = now_ms(), time.monotonic()
        try:
            session = self._profiler.start()
        except Exception as error:
            if self._profiler.ALREADY in str(error):
                raise InUse("another profiler is running") from None
            raise
        end = began + seconds
        while not is_over() and (left := end - time.monotonic()) > 0:
            wait(self._bell, min(left, LOOK_EVERY_S))
        lasted = time.monotonic() - began
        trace = self._profiler.stop(session)
        return Taken(at_ms, lasted, time.thread_time() - cpu, trace)

    def forsake(self) -> None:
        """In a forked child: leave the script's lock as if no window had been open."""
        if self._held is not None:
            self._held.forsake()
