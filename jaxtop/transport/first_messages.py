"""Reading a listening socket whose peers send one message for each connection.

A peer that sends many messages, and asks for a sign of life between them, could end the training process:
once its messages fill its queue and it dies by a reset, ZeroMQ 4.3.5 stops with an assertion when we have
read half of the queue (its issue 4364). So we stop at a second message, and the socket has to be replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from jaxtop.transport.authenticator import sender_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# The last connections that sent their message. Far more than can be open at a time.
MOST_REMEMBERED = 1024


class SentTwice(Exception):
    """A peer sent a second message on one connection; `sender` is whom the authenticator admitted."""

    def __init__(self, sender: str) -> None:
        super().__init__(sender)
        self.sender = sender


class FirstMessages:
    """The messages of a ROUTER socket: one for each connection."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self.socket = socket
        self._have_sent: dict[bytes, None] = {}

    def take(self, most: int) -> Iterator[tuple[bytes, zmq.Frame]]:
        """Yield the return address and the message of at most `most` peers, without waiting."""
        for _ in range(most):
            try:
                peer, *parts = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            if peer.bytes in self._have_sent or len(parts) != 1:
                raise SentTwice(sender_of(parts[-1]) if parts else "")
            self._have_sent[peer.bytes] = None
            if len(self._have_sent) > MOST_REMEMBERED:
                del self._have_sent[next(iter(self._have_sent))]
            yield peer.bytes, parts[0]
