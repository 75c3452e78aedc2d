"""Waiting for a bell or for time to pass, whichever comes first; and pauses in which others have the GIL."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.core.threads import Wake

# Not 0, after which the GIL would be ours again before anybody woke up.
BREATH_S = 1e-5


def wait(bell: Wake, seconds: float) -> bool:
    """Wait at most so long; True if the bell rang."""
    poller = select.poll()  # select() fails in programs with more than 1,024 open files
    poller.register(bell.fd, select.POLLIN)
    rang = bool(poller.poll(max(0.0, seconds) * 1000))
    if rang:
        bell.clear()
    return rang


def breathe() -> None:
    """Let whoever waits for the GIL have it."""
    time.sleep(BREATH_S)


# The script waits for the GIL at most for one slice.
SLICE_S = 0.002
# Seconds of rest for each second of work. A script that launches small operations gives the GIL up at each
# launch: after a pause that is too short for more than one, it would do one launch in each slice.
REST = 4.0
# Up to this debt a pause is as long as a slice, so that short work is soon done.
DEBT_S = 0.02


class Slices:
    """Divides long work in Python into slices, with a rest after each that is in proportion to the work."""

    def __init__(self, is_urgent: Callable[[], bool] = bool) -> None:
        self._is_urgent = is_urgent
        self._debt = 0.0
        self._begin()

    def _begin(self) -> None:
        self._cpu = time.thread_time()
        self._end = time.monotonic() + SLICE_S

    @property
    def is_over(self) -> bool:
        """Whether this slice has taken its time."""
        return time.monotonic() >= self._end

    def expire(self) -> None:
        """End this slice early: what comes next is to wait for the script."""
        self._end = 0.0

    def pause(self) -> None:
        """Rest if this slice is over."""
        if self.is_over:
            self.rest()

    def rest(self, *, briefly: bool = False) -> None:
        """Let others have the GIL; `briefly` if something is held meanwhile that the script may drop."""
        self._debt += REST * (time.thread_time() - self._cpu)
        if self._is_urgent():
            self._debt = 0.0
        pause = self._debt if self._debt > DEBT_S and not briefly else min(self._debt, SLICE_S)
        self._debt -= pause
        time.sleep(max(BREATH_S, pause))
        self._begin()
