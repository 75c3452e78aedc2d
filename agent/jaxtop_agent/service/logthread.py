"""The debug log of a training process: the thread that writes it, and lines about what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base import debuglog
from jaxtop.base.debuglog import LOG
from jaxtop_agent.core.threads import WakeEvent, Worker
from jaxtop_agent.core.waiting import IDLE_S, wait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class LogThread:
    """Writes the lines of the other threads, so that these wait for no disk and no handler of the script.

    The thread starts with the first line.
    """

    def __init__(self) -> None:
        self._wakeup: WakeEvent | None = None
        self._is_stopping = False
        # The thread that takes the only element starts the worker.
        self._start: list[Callable[[], None]] = [self._begin]
        self.worker: Worker | None = None
        LOG.deliver = self._deliver

    def _deliver(self) -> None:
        try:
            start = self._start.pop()
        except IndexError:
            if (wakeup := self._wakeup) is not None:
                wakeup.set()
            return
        try:
            start()
        except Exception:  # no more threads, or no more descriptors
            LOG.deliver = LOG.write
            LOG.write()

    def _begin(self) -> None:
        self._wakeup = WakeEvent()
        worker = Worker("debug log", self._run, lambda _: None)
        worker.start()
        self.worker = worker

    def _run(self) -> None:
        wakeup = self._wakeup
        assert wakeup is not None
        while not self._is_stopping:
            LOG.write()
            wait(wakeup, IDLE_S)
        LOG.write()

    def stop(self, patience: float) -> None:
        """Write what is left and end the thread, within this time."""
        self._start.clear()
        self._is_stopping = True
        LOG.deliver = LOG.write
        if self.worker is None or self._wakeup is None:
            LOG.write()
            return
        self._wakeup.set()
        if self.worker.join(patience):
            self._wakeup.close()


class ChangeLog:
    """Adds lines where the publisher's figures differ from those of the previous call."""

    def __init__(self) -> None:
        self._sources: Mapping[str, str] = {}
        self._dropped = self._missed = 0

    def note_sources(self, sources: Mapping[str, str]) -> None:
        """Note the sources whose state has changed."""
        before, self._sources = self._sources, sources
        for name in sorted(sources.keys() | before.keys()):
            if (state := sources.get(name)) != before.get(name):
                detail = f"before: {before[name]}" if name in before else ""
                debuglog.info("publisher", f"the source {name!r} is {state}", detail)

    def note_dropped(self, dropped: int, missed: int) -> None:
        """Note the messages that nobody sent in time, and those that viewers were too slow to get."""
        if dropped > self._dropped:
            debuglog.warning(
                "publisher", "messages waited too long and were dropped", dropped - self._dropped
            )
        if missed > self._missed:
            debuglog.warning(
                "publisher", "viewers read too slowly and missed messages", missed - self._missed
            )
        self._dropped, self._missed = dropped, missed
