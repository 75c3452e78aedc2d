"""Questions of the app to many agents, some at a time: a thousand at once would be a thousand handshakes."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop import wire
    from jaxtop.sources import LiveSource

AT_ONCE = 64


class Broadcast:
    """A question to some agents. The thread that follows the source advances it, the app reads the counts."""

    def __init__(self, request: wire.Request, agents: Sequence[str]) -> None:
        self._request = request
        self._left = deque(agents)
        self._open = 0
        self.asked = len(agents)
        self.answered = 0
        self.silent = 0
        self.refused: Counter[str] = Counter()

    @property
    def is_done(self) -> bool:
        return not self._left and not self._open

    def advance(self, source: LiveSource) -> None:
        """Ask some more, as answers of the others have come."""
        while self._left and self._open < AT_ONCE:
            self._open += 1
            source.request(self._left.popleft(), self._request, self._done)

    def give_up(self) -> None:
        """The source is closed: nobody else will answer."""
        self.silent += len(self._left) + self._open
        self._left.clear()
        self._open = 0

    def _done(self, reply: wire.Reply | None) -> None:
        self._open -= 1
        if reply is None:
            self.silent += 1
        elif reply.error:
            # A new object each time: the other thread may be looking at the one before.
            self.refused = self.refused + Counter([reply.error])
        else:
            self.answered += 1
