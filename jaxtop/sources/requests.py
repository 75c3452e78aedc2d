"""Requests to agents, sent without waiting for the replies."""

from __future__ import annotations

import errno
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import zmq

from jaxtop import wire
from jaxtop.transport import RequestConnection

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from jaxtop.base.keys import KeyPair
    from jaxtop.sources.descriptors import Descriptors
    from jaxtop.transport.client import LinkChange

REPLY_TIMEOUT_S = 4.0
# Further requests wait in a queue: each needs a socket with its monitor, and a handshake.
MOST_OPEN, DESCRIPTORS_EACH = 256, 6


class ReplyCallback(Protocol):
    """A callback for a reply: the reply, None if it did not come, and the messages that came with it."""

    def __call__(self, reply: wire.Reply | None, frames: list[wire.Frame], /) -> None: ...


@dataclass
class _OpenRequest:
    endpoint: str
    request: wire.Request
    callbacks: list[ReplyCallback]
    on_change: Callable[[LinkChange], object]
    until: float = 0.0  # set when the request is sent


class RequestPool:
    """Requests under way. Nothing waits for replies; `take` passes on those that have arrived."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        keys: KeyPair,
        server: bytes,
        rejected: Counter[str],
        descriptors: Descriptors,
    ) -> None:
        self._context = context
        self._keys = keys
        self._server = server
        self._rejected = rejected
        self._descriptors = descriptors
        self._open: dict[RequestConnection, _OpenRequest] = {}
        self._waiting: deque[_OpenRequest] = deque()

    def send(
        self,
        endpoint: str,
        request: wire.Request,
        now: float,
        on_reply: ReplyCallback,
        on_change: Callable[[LinkChange], object] = lambda _: None,
    ) -> None:
        """Send a request. An equal request to the same agent under way is shared, and both get the reply."""
        for each in (*self._open.values(), *self._waiting):
            if each.endpoint == endpoint and each.request == request:
                each.callbacks.append(on_reply)
                return
        self._waiting.append(_OpenRequest(endpoint, request, [on_reply], on_change))
        self._begin(now)

    def wait_with(self, poller: zmq.Poller) -> None:
        """Let replies wake this poller."""
        for connection in self._open:
            poller.register(connection.socket, zmq.POLLIN)
            poller.register(connection.monitor, zmq.POLLIN)

    def take(self, now: float) -> None:
        """Pass on replies, give up overdue requests, and send requests from the queue."""
        for connection, pending in list(self._open.items()):
            for change in connection.changes():
                pending.on_change(change)
            parts = connection.reply()
            if parts is not None or now >= pending.until:
                del self._open[connection]
                connection.close()
                self._hand_over(pending, parts or [], now)
        self._begin(now)

    def close(self) -> None:
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._waiting.clear()

    def _begin(self, now: float) -> None:
        while self._waiting and len(self._open) < MOST_OPEN and self._descriptors.take(DESCRIPTORS_EACH):
            pending = self._waiting.popleft()
            raw = wire.encode(pending.request)
            try:
                connection = RequestConnection(self._context, self._keys, self._server, pending.endpoint, raw)
            except zmq.ZMQError as error:
                if error.errno == errno.EMFILE:  # other code has taken the last descriptors
                    self._waiting.appendleft(pending)
                    return
                reply = wire.Reply(pending.request.what, error=f"has no valid address: {error}")
                for each in pending.callbacks:
                    each(reply, [])
                continue
            pending.until = now + REPLY_TIMEOUT_S
            self._open[connection] = pending

    def _hand_over(self, pending: _OpenRequest, parts: list[bytes], now: float) -> None:
        reply, frames = self._read(parts, now)
        first, *others = pending.callbacks
        first(reply, frames)
        for each in others:
            each(reply, [])  # the messages were already passed on

    def _read(self, parts: list[bytes], now: float) -> tuple[wire.Reply | None, list[wire.Frame]]:
        if parts and (not parts[0] or parts[0].decode("ascii", "replace") in wire.KINDS):
            return None, []  # figures: without a typed port, this may be the telemetry port
        try:
            reply = wire.decode_as(wire.Reply, parts[0]) if parts else None
            frames = [wire.unpack(parts[i : i + 3], now) for i in range(1, len(parts), 3)]
        except wire.Unreadable as error:
            wire.tally(self._rejected, f"unreadable answer: {error}")
            return None, []
        return reply, frames
