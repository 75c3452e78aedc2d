"""One window: the profiler is started and stopped, while the lock of the script's own profiler is held."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jaxtop.base.clock import now_ms
from jaxtop_agent.core.waiting import wait
from jaxtop_agent.profiler.lock import HeldLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.core.threads import WakeEvent
    from jaxtop_agent.jaxprivate import Profiler

# Seconds between two checks whether to end an open window early.
LOOK_EVERY_S = 0.005


class Refused(Exception):
    """No profile is taken now; the text says why."""


class InUse(Refused):
    """The profiler is in use by others; a later try may succeed."""


@dataclass
class ProfiledTrace:
    """The result of a window: its beginning, its duration, its cost in CPU seconds, and its trace.

    `is_cut_off`: the script wanted the profiler for itself.
    """

    at_ms: int
    seconds: float
    cpu: float
    trace: bytes
    is_cut_off: bool = False
    began: float = 0.0  # by the monotonic clock
    wall: float = 0.0  # by the wall clock


class ProfilerSession:
    """The windows of the process, one at a time.

    A window ends early if the script wants its lock, which sets `wakeup`, or if `is_over` returns true.
    """

    def __init__(self, profiler: Profiler, wakeup: WakeEvent, danger: Callable[[], str | None]) -> None:
        """Create it; `danger` returns why no profile may be taken."""
        self._profiler = profiler
        self._danger = danger
        self._wakeup = wakeup
        self._held: HeldLock | None = None

    def take(self, seconds: float, is_over: Callable[[], bool]) -> ProfiledTrace:
        """Keep a window open for this time or until `is_over`; raise `Refused` if none may be taken."""
        return self._hold(seconds, is_over, self._profiler.start, lambda: None)

    def capture(
        self, seconds: float, is_over: Callable[[], bool], stopping: Callable[[], None]
    ) -> ProfiledTrace:
        """Take a full profile in the same way; `stopping` is called before the stop."""
        return self._hold(seconds, is_over, self._profiler.start_full, stopping)

    def _hold(
        self,
        seconds: float,
        is_over: Callable[[], bool],
        start: Callable[[], Any],
        stopping: Callable[[], None],
    ) -> ProfiledTrace:
        if (why := self._danger()) is not None:
            raise Refused(why)
        held = self._held = HeldLock(self._profiler.state, self._wakeup.set)
        try:
            with held as lock:
                if lock is None:
                    raise InUse("the script is starting or stopping a profile")
                if (who := self._profiler.in_use()) is not None:
                    raise InUse(who)
                cpu = time.thread_time()
                at_ms, began, wall = now_ms(), time.monotonic(), time.time()
                session = self._started(start)
                while not (lock.is_wanted or is_over()) and (left := began + seconds - time.monotonic()) > 0:
                    wait(self._wakeup, min(left, LOOK_EVERY_S))
                lasted = time.monotonic() - began
                stopping()
                trace = self._profiler.stop(session)
                is_cut_off = lock.is_wanted and lasted < seconds
                return ProfiledTrace(at_ms, lasted, time.thread_time() - cpu, trace, is_cut_off, began, wall)
        finally:
            self._held = None

    def _started(self, start: Callable[[], Any]) -> Any:
        try:
            return start()
        except Exception as error:
            if self._profiler.ALREADY in str(error):
                raise InUse("another profiler is running") from None
            raise

    def after_fork(self) -> None:
        """Restore the script's lock in a forked child, as if no window had been open."""
        if self._held is not None:
            self._held.after_fork()
