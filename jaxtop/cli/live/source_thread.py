"""A thread that follows a live source, so that the viewer misses no messages on a slow terminal."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from jaxtop.base import debuglog
from jaxtop.base.clock import steady
from jaxtop.cli.errors import UserError
from jaxtop.cli.live.broadcast import Broadcast, request_to
from jaxtop.sources.backlog import Backlog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.model import Cluster
    from jaxtop.sources import Source

POLL = 0.25


class Keeper(Protocol):
    """Something that records the frames a cluster has folded."""

    def take(self, frames: Sequence[Any], cluster: Cluster, now: float, /) -> None: ...


class Job(Protocol):
    """Requests to several agents that this thread sends and whose answers it waits for."""

    @property
    def is_done(self) -> bool: ...

    def advance(self, source: Source, /) -> None: ...

    def give_up(self) -> None: ...


class SourceThread:
    """A thread that opens the source, polls it and queues its frames for the app.

    `awaits` says what there is to wait for until the source can be opened.
    """

    def __init__(self, open_source: Callable[[], Source | None], *keepers: Keeper, awaits: str = "") -> None:
        self.keepers = keepers
        self._awaits = [awaits] if awaits else []
        self._open = open_source
        self._frames = Backlog()
        self._new_jobs: deque[Job] = deque()
        self._source: Source | None = None
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jaxtop follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop following, and wait up to five seconds for the thread."""
        self._stopping.set()
        self._thread.join(5)

    def drain(self) -> list[Any]:
        """Return the frames that arrived since the last call."""
        return self._frames.take()

    def folded(self, frames: Sequence[Any], cluster: Cluster) -> None:
        now = steady()
        for keeper in self.keepers:
            keeper.take(frames, cluster, now)

    def failure(self) -> str | None:
        """Return why there will be no more frames; None if there may be."""
        return self._failure

    def rejected(self) -> dict[str, int]:
        """Return the kinds of rejected and dropped messages, with their counts."""
        dropped = (
            {"the terminal was suspended for too long": self._frames.dropped} if self._frames.dropped else {}
        )
        return {**(self._source.rejected if self._source else {}), **dropped}

    def notes(self) -> list[str]:
        """Return notes on the source itself for the user, one per line."""
        return self._source.notes if self._source else self._awaits

    def request(self, kind: str, agents: Sequence[str], interval_ms: int | None = None) -> Broadcast:
        """Send a request to these agents. Their answers arrive as frames; the result counts the replies."""
        request = Broadcast(request_to(kind, agents, steady(), interval_ms), agents)
        self._new_jobs.append(request)
        return request

    def take_on(self, job: Job) -> None:
        """Advance a job along with the source until it is done."""
        self._new_jobs.append(job)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._source = self._open()
                if self._source is not None:
                    self._follow(self._source)
                else:
                    self._stopping.wait(POLL)
        except UserError as error:
            self._failure = str(error)
            debuglog.warning("source", "following the run ended", error)
        except Exception as error:  # noqa: BLE001 - the app must learn of it, or it would wait forever
            debuglog.warning("source", "following the run failed", error=error)
            self._failure = f"following the run failed: {type(error).__name__}: {error}"

    def _follow(self, source: Source) -> None:
        open_jobs: list[Job] = []
        try:
            while not self._stopping.is_set():
                while self._new_jobs:
                    open_jobs.append(self._new_jobs.popleft())
                for each in open_jobs:
                    each.advance(source)
                self._frames.put(source.poll(POLL))
                self._frames.mend(source)
                open_jobs = [each for each in open_jobs if not each.is_done]
        finally:
            source.close()
            for each in open_jobs:
                each.give_up()
