"""The threads of one agent: those that work on its board, and that of the debug log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop_agent.core.threads import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop_agent.service.logthread import LogThread


class AgentThreads:
    """Starts and joins the threads of an agent, and knows them by their ids.

    Args:
        failure: Returns what to call with the exception that ends the thread of this name.
    """

    def __init__(self, failure: Callable[[str], Callable[[BaseException], None]]) -> None:
        self._failure = failure
        self._workers: list[Worker] = []
        self.log: LogThread | None = None

    def prepare(self, work: Iterable[tuple[str, Callable[[], None]]]) -> None:
        """Create the threads of these names, which `start` starts."""
        self._workers = [Worker(name, run, self._failure(name)) for name, run in work]

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def start_one_more(self, name: str, target: Callable[[], None]) -> None:
        """Start one more thread; it takes the place of one with its name that has ended."""
        worker = Worker(name, target, self._failure(name))
        others = [each for each in self._workers if each.name != name or not each.join(0.0)]
        self._workers = [*others, worker]
        worker.start()

    def join(self, patience_with: Callable[[Worker], float]) -> bool:
        """Wait for each thread for its own time; return whether all have ended."""
        have_ended = [worker.join(patience_with(worker)) for worker in self._workers]
        return all(have_ended)

    def forget(self) -> None:
        """Drop all threads: in a forked child there are none."""
        self._workers = []
        self.log = None

    def names(self) -> dict[int, str]:
        """Return the names of the threads by native id."""
        return {each.native_id: each.name for each in self._all() if each.native_id is not None}

    def idents(self) -> frozenset[int]:
        return frozenset(worker.ident for worker in self._all() if worker.ident is not None)

    def _all(self) -> list[Worker]:
        log = self.log.worker if self.log else None
        return self._workers if log is None else [*self._workers, log]
