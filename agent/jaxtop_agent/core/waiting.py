"""Waits for an event or a timeout, and pauses that release the GIL to other threads."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.core.threads import WakeEvent

# The pause that releases the GIL. With 0 this thread would take the GIL back before another thread wakes up.
GIL_RELEASE_S = 1e-5
# The wait of a thread that only its event should wake.
IDLE_S = 3600.0


def wait(wakeup: WakeEvent, seconds: float) -> bool:
    """Wait for the event, at most this many seconds; return whether it was set."""
    poller = select.poll()  # select() fails in programs with more than 1,024 open files
    poller.register(wakeup.fd, select.POLLIN)
    is_set = bool(poller.poll(max(0.0, seconds) * 1000))
    if is_set:
        wakeup.clear()
    return is_set


def release_gil() -> None:
    """Release the GIL to threads that wait for it."""
    time.sleep(GIL_RELEASE_S)


# The script waits for the GIL at most for one slice.
SLICE_S = 0.002
# Seconds of rest for each second of work. A script that launches small operations releases the GIL at each
# launch. If a pause had room for only one launch, the script would make one launch per slice.
REST_PER_WORK_SECOND = 4.0
# Up to this debt a pause is at most as long as a slice, so that short work ends soon.
DEBT_S = 0.02


class GilYielder:
    """Called often during work in Python, releases the GIL after each slice."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._last > SLICE_S:
            release_gil()
            self._last = time.monotonic()


class WorkSlices:
    """Divides long work in Python into slices, each followed by a rest in proportion to the work."""

    def __init__(self, is_urgent: Callable[[], bool] = bool) -> None:
        self._is_urgent = is_urgent
        self._debt = 0.0
        self._begin()

    def _begin(self) -> None:
        self._cpu = time.thread_time()
        self._end = time.monotonic() + SLICE_S

    @property
    def is_over(self) -> bool:
        """Whether this slice has used up its time."""
        return time.monotonic() >= self._end

    def expire(self) -> None:
        """End this slice early, so that the next work yields to the script first."""
        self._end = 0.0

    def pause(self) -> None:
        if self.is_over:
            self.rest()

    def rest(self, *, briefly: bool = False) -> None:
        """Release the GIL to others; `briefly` if the caller holds objects that the script may drop."""
        self._debt += REST_PER_WORK_SECOND * (time.thread_time() - self._cpu)
        if self._is_urgent():
            self._debt = 0.0
        pause = self._debt if self._debt > DEBT_S and not briefly else min(self._debt, SLICE_S)
        self._debt -= pause
        time.sleep(max(GIL_RELEASE_S, pause))
        self._begin()
