"""The telemetry socket and its viewers: each connection is a viewer, and what viewers send is dropped."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import zmq

if TYPE_CHECKING:
    from collections.abc import Sequence

# Each viewer costs a connection and at most `server.QUEUE` messages. This many are enough for a team.
MOST_VIEWERS = 64
# A viewer sends one empty message. ZeroMQ disconnects a peer that sends a message with a larger part.
MAX_SENT = 4096
AT_ONCE = 64
REST_S = 0.05
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
        self._viewers: dict[bytes, None] = {}
        self.missed = 0  # messages that did not fit into a viewer's queue
        self.rests_until = 0.0  # viewers sent so much that we read nothing until then
        self._checked = time.monotonic()

    @property
    def count(self) -> int:
        return len(self._viewers)

    def take(self) -> bool:
        """Read what viewers sent; return whether a new viewer came."""
        came = False
        for _ in range(AT_ONCE):
            try:
                viewer, *_ = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return came
            if viewer not in self._viewers and len(self._viewers) < MOST_VIEWERS:
                self._viewers[viewer] = None
                came = True
        self.rests_until = time.monotonic() + REST_S
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
