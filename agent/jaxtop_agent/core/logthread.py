"""The thread that writes the debug log of a training process; there is none until there is a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.debuglog import LOG
from jaxtop_agent.core.threads import Wake, Worker
from jaxtop_agent.core.waiting import wait

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE_S = 3600.0


class LogThread:
    """Writes the lines of the other threads, so that these wait for no disk and no handler of the script."""

    def __init__(self) -> None:
        self._bell: Wake | None = None
        self._is_stopping = False
        # The thread that takes the only element starts the worker.
        self._start: list[Callable[[], None]] = [self._begin]
        self.worker: Worker | None = None
        LOG.deliver = self._deliver

    def _deliver(self) -> None:
        try:
            start = self._start.pop()
        except IndexError:
            if (bell := self._bell) is not None:
                bell.ring()
            return
        try:
            start()
        except Exception:  # no more threads, or no more descriptors
            LOG.deliver = LOG.write
            LOG.write()

    def _begin(self) -> None:
        self._bell = Wake()
        worker = Worker("debug log", self._run, lambda _: None)
        worker.start()
        self.worker = worker

    def _run(self) -> None:
        bell = self._bell
        assert bell is not None
        while not self._is_stopping:
            LOG.write()
            wait(bell, IDLE_S)
        LOG.write()

    def stop(self, patience: float) -> None:
        """Write what is left and end the thread, within this time."""
        self._start.clear()
        self._is_stopping = True
        LOG.deliver = LOG.write
        if self.worker is None or self._bell is None:
            LOG.write()
            return
        self._bell.ring()
        if self.worker.join(patience):
            self._bell.close()
