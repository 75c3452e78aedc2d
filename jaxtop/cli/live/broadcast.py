"""Requests from the app to many agents, some at a time: a thousand at once would be a thousand handshakes."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from jaxtop import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.sources import Source

AT_ONCE = 64


# Windows that are requested of several hosts begin at one moment, when the requests have reached all of them.
WINDOW_AHEAD_S, AHEAD_A_HOST_S = 0.6, 0.002


def request_to(kind: str, agents: Sequence[str], now: float, interval_ms: int | None = None) -> wire.Request:
    """Return the same request for all of these agents; `kind` is a word of the app, such as `window`."""
    at = now + WINDOW_AHEAD_S + AHEAD_A_HOST_S * len(agents)
    if kind == "window":
        return wire.Request(wire.TAKE_WINDOW, interval_ms, round(at * 1000))
    return wire.Request(kind, interval_ms)


class Broadcast:
    """A request to several agents. The source thread advances it, and the app reads the counts."""

    def __init__(self, request: wire.Request, agents: Sequence[str]) -> None:
        self._request = request
        self._left = deque(agents)
        self._open = 0
        self.requested = len(agents)
        self.replied = 0
        self.silent = 0
        self.refused: Counter[str] = Counter()

    @property
    def is_done(self) -> bool:
        return not self._left and not self._open

    def advance(self, source: Source) -> None:
        """Send further requests as replies to earlier ones come."""
        while self._left and self._open < AT_ONCE:
            self._open += 1
            source.request(self._left.popleft(), self._request, self._done)

    def give_up(self) -> None:
        """Count the agents without a reply, because the source is closed."""
        self.silent += len(self._left) + self._open
        self._left.clear()
        self._open = 0

    def _done(self, reply: wire.Reply | None) -> None:
        self._open -= 1
        if reply is None:
            self.silent += 1
        elif reply.error:
            # A new object each time: the other thread may be reading the previous one.
            self.refused = self.refused + Counter([reply.error])
        else:
            self.replied += 1
