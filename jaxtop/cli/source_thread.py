"""A thread that follows a live source, so that a slow terminal never makes the viewer miss messages."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from jaxtop import wire
from jaxtop.cli.backlog import Backlog
from jaxtop.cli.broadcast import Broadcast
from jaxtop.cli.errors import UserError
from jaxtop.clock import steady

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.model import Cluster
    from jaxtop.sources import LiveSource

POLL = 0.25
# So many agents are asked at a time for what gave way.
MEND_AT_ONCE = 16


def _ignore(_: wire.Reply | None) -> None:
    """The messages that come with a reply are all that matters here."""


class Keeper(Protocol):
    """Keeps what a cluster has taken in."""

    def take(self, frames: Sequence[Any], cluster: Cluster, now: float, /) -> None: ...


class SourceThread:
    """Opens the source, polls it, and keeps its frames until the app takes them."""

    def __init__(self, open_source: Callable[[], LiveSource | None], *keepers: Keeper) -> None:
        self.keepers = keepers
        self._open = open_source
        self._frames = Backlog()
        self._asked: deque[Broadcast] = deque()
        self._source: LiveSource | None = None
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jaxtop follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Leave the agents, and wait until that is done."""
        self._stopping.set()
        self._thread.join(5)

    def drain(self) -> list[Any]:
        """What arrived since the last call."""
        return self._frames.take()

    def folded(self, frames: Sequence[Any], cluster: Cluster) -> None:
        """Hand on what the app has taken in."""
        now = steady()
        for keeper in self.keepers:
            keeper.take(frames, cluster, now)

    def failure(self) -> str | None:
        """Why there will be no frames any more."""
        return self._failure

    def rejected(self) -> dict[str, int]:
        """What was received and could not be read, with how often."""
        dropped = (
            {"the screen stood still for too long": self._frames.dropped} if self._frames.dropped else {}
        )
        return {**(self._source.rejected if self._source else {}), **dropped}

    def notes(self) -> list[str]:
        """What a person should know of the source itself, a line each."""
        return self._source.notes if self._source else []

    def ask(self, what: str, agents: Sequence[str], interval_ms: int | None = None) -> Broadcast:
        """Ask these agents for something; their answers come as frames, who answered is counted."""
        asking = Broadcast(wire.Request(what, interval_ms), agents)
        self._asked.append(asking)
        return asking

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
        except Exception as error:  # noqa: BLE001 - the app must hear of it, or it would wait for ever
            self._failure = f"following the run failed: {type(error).__name__}: {error}"

    def _follow(self, source: LiveSource) -> None:
        asking: list[Broadcast] = []
        try:
            while not self._stopping.is_set():
                while self._asked:
                    asking.append(self._asked.popleft())
                for each in asking:
                    each.advance(source)
                self._frames.put(source.poll(POLL))
                for agent in self._frames.lost(MEND_AT_ONCE):
                    source.request(agent, wire.Request("state"), _ignore)
                asking = [each for each in asking if not each.is_done]
        finally:
            source.close()
            for each in asking:
                each.give_up()
