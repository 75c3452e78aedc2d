"""The telemetry socket and its viewers: each connection is a viewer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import zmq

from jaxtop.transport.first_messages import FirstMessages

if TYPE_CHECKING:
    from collections.abc import Sequence

# Each viewer costs a connection and at most `server.QUEUE` messages. This many are enough for a team.
MOST_VIEWERS = 64
# A viewer sends one empty message. ZeroMQ disconnects a peer that sends a message with a larger part.
MAX_SENT = 4096
AT_ONCE = 64
# A viewer that left is noticed when something is sent to it, at least this often.
CHECK_S = 1.0


class TelemetrySocket:
    """A ROUTER socket whose peers announce themselves.

    XPUB would store every subscription that a viewer sends, without limit. Here a viewer is only a routing
    id.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # sending to a peer that left is then an error
        self.socket = socket
        self._announced = FirstMessages(socket)
        self._viewers: dict[bytes, None] = {}
        self.missed = 0  # messages that did not fit into a viewer's queue
        self._checked = time.monotonic()

    @property
    def count(self) -> int:
        return len(self._viewers)

    def take(self) -> bool:
        """Read what viewers sent; return whether a new viewer came."""
        came = False
        for viewer, _ in self._announced.take(AT_ONCE):
            if len(self._viewers) < MOST_VIEWERS:
                self._viewers[viewer] = None
                came = True
        return came

    def send(self, parts: Sequence[bytes]) -> None:
        """Send to every viewer; one whose queue is full misses the message, and detects the gap."""
        if not self._viewers:
            return
        self._checked = time.monotonic()
        # All viewers share one copy, which stays in the queue of a viewer that does not read.
        frames = [zmq.Frame(part, copy=True, track=False) for part in parts]
        for viewer in list(self._viewers):
            try:
                self.socket.send_multipart([viewer, *frames], zmq.NOBLOCK, copy=False)
            except zmq.Again:
                self.missed += 1
            except zmq.ZMQError:
                del self._viewers[viewer]

    def check(self, now: float) -> None:
        """Detect viewers that left, if nothing was sent lately, with an empty message that viewers ignore."""
        if now - self._checked >= CHECK_S:
            self.send([b""])
