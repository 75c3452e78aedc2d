"""The listening socket of a relay: one port for all viewers and for all that they ask."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import zmq

from jaxtop.transport.authenticator import Authenticator, is_from_owner, router
from jaxtop.transport.listener import PORTS, Listener
from jaxtop.transport.server import FAREWELL_MS, KERNEL_BUFFER, MAX_REQUEST, ReceivedRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.base.keys import KeyPair

# The relay itself bounds what is on the way to a viewer; this many messages never fill a queue before that.
QUEUE = 256


class Hub:
    """A socket behind the authenticator; created, used and closed by one thread."""

    def __init__(self, keys: KeyPair, guests: Callable[[], frozenset[bytes]]) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._authenticator = Authenticator(self._context, keys, guests)
        self._socket = router(self._context, keys, QUEUE, MAX_REQUEST)
        # Viewers send many messages here, and a full queue could end the relay (see `first_messages`): their
        # number has no bound, but the listener ends connections that send too many bytes.
        self._socket.rcvhwm = 0
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # sending to a viewer that left is then an error
        self._listener = Listener((self._socket,), self._authenticator.socket, KERNEL_BUFFER)

    def bind(self, host: str, first: int, ports: int = PORTS) -> int:
        """Take the first free of these ports of an address, and return it."""
        return self._listener.bind(self._socket, host, first, ports)

    def take(self) -> list[ReceivedRequest]:
        """Return what has arrived, without waiting; answer handshakes."""
        self._listener.guard(time.monotonic(), self._listener.monitors)
        while self._authenticator.socket.poll(0):
            self._authenticator.answer()
        taken: list[ReceivedRequest] = []
        with suppress(zmq.Again):
            while len(taken) < QUEUE:
                parts = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
                if len(parts) == 2:
                    taken.append(ReceivedRequest(parts[0].bytes, is_from_owner(parts[1]), parts[1].bytes))
        return taken

    def send(self, receiver: bytes, raw: bytes) -> bool:
        """Send without waiting; return False if the queue is full. `ConnectionError`: nobody is there."""
        try:
            self._socket.send_multipart([receiver, raw], zmq.NOBLOCK)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            raise ConnectionError(str(error)) from None
        return True

    def close(self) -> None:
        """Close; allow the last messages a moment to leave."""
        self._listener.close(FAREWELL_MS)
        self._context.destroy(linger=0)
