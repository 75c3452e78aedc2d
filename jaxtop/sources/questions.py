"""Questions to agents that are under way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import zmq

from jaxtop import wire
from jaxtop.transport import Question

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from jaxtop.keys import KeyPair
    from jaxtop.transport.client import Change

ANSWER_WITHIN = 4.0


class Answered(Protocol):
    """What to do with an answer: the reply, None if none came, and the messages that came with it."""

    def __call__(self, reply: wire.Reply | None, frames: list[wire.Frame], /) -> None: ...


@dataclass
class _Open:
    socket: Question
    request: wire.Request
    until: float
    answered: Answered
    noticed: Callable[[Change], None]
    also: list[Answered] = field(default_factory=list)


def _ignore(_: Change) -> None:
    pass


class Questions:
    """Asks, waits for none of the answers, and hands over those that have come."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        keys: KeyPair,
        server: bytes,
        rejected: Counter[str],
    ) -> None:
        self._context = context
        self._keys = keys
        self._server = server
        self._rejected = rejected
        self._open: list[_Open] = []

    def ask(
        self,
        endpoint: str,
        request: wire.Request,
        now: float,
        answered: Answered,
        noticed: Callable[[Change], None] = _ignore,
    ) -> None:
        """Ask; the same question to the same agent is not asked twice at a time, but all hear the reply."""
        for each in self._open:
            if each.socket.endpoint == endpoint and each.request == request:
                each.also.append(answered)
                return
        socket = Question(self._context, self._keys, self._server, endpoint, wire.encode(request))
        self._open.append(_Open(socket, request, now + ANSWER_WITHIN, answered, noticed))

    def wait_with(self, poller: zmq.Poller) -> None:
        """Let answers wake this poller."""
        for each in self._open:
            poller.register(each.socket.socket, zmq.POLLIN)
            poller.register(each.socket.monitor, zmq.POLLIN)

    def take(self, now: float) -> None:
        """Hand over what has come, and give up what is overdue."""
        for each in list(self._open):
            for change in each.socket.changes():
                each.noticed(change)
            parts = each.socket.answer()
            if parts is not None or now >= each.until:
                self._open.remove(each)
                each.socket.close()
                reply, frames = self._read(parts or [], now)
                each.answered(reply, frames)
                for also in each.also:
                    also(reply, [])  # the messages were handed over already

    def close(self) -> None:
        """Give up all."""
        for each in self._open:
            each.socket.close()
        self._open.clear()

    def _read(self, parts: list[bytes], now: float) -> tuple[wire.Reply | None, list[wire.Frame]]:
        try:
            reply = wire.decode_as(wire.Reply, parts[0]) if parts else None
            frames = [wire.unpack(parts[i : i + 3], now) for i in range(1, len(parts), 3)]
        except wire.Unreadable as error:
            self._rejected[f"unreadable answer: {error}"[:200]] += 1
            return None, []
        return reply, frames
