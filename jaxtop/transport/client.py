"""The viewer's side: one subscription to many agents, requests to single ones, and relays."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import zmq

from jaxtop.transport.monitors import close_monitored, events_of, monitor_of

if TYPE_CHECKING:
    from jaxtop.base.keys import KeyPair

MAX_MESSAGE = 8 * 1024 * 1024
HEARTBEAT_MS = 500
HEARTBEAT_TIMEOUT_MS = 1500
HANDSHAKE_MS = 1500
RECONNECT_MS = 250

_EVENTS = (
    zmq.EVENT_CLOSED | zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED |
    zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL |
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)  # fmt: skip

UP = "up"
DOWN = "down"
NOT_ADMITTED = "not admitted"
OTHER_KEY = "other key"
NO_ANSWER = "no answer"


class LinkChange(NamedTuple):
    """A change of one connection, as the transport sees it."""

    endpoint: str
    what: str


class _Monitored:
    """A client socket with its monitor.

    With heartbeats, it notices a server that sends nothing. ZeroMQ ends the whole process if it
    sends one over a connection that was lost while the queue of replies was full (libzmq 4.3.5, issue 4364).
    So a request has no heartbeats: its caller waits for a limited time.
    """

    _has_heartbeats = True

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keys: KeyPair, server: bytes) -> None:
        self.socket = context.socket(zmq.DEALER)
        try:
            self._set_up(keys, server)
            self.monitor = monitor_of(self.socket, _EVENTS)
        except zmq.ZMQError:  # no descriptors are left
            self.socket.close(linger=0)
            raise

    def _set_up(self, keys: KeyPair, server: bytes) -> None:
        self.socket.linger = 0
        self.socket.setsockopt(zmq.IPV6, 1)
        self.socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        if self._has_heartbeats:
            self.socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
            self.socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
        self.socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        self.socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        self.socket.curve_serverkey = server
        self.socket.curve_publickey = keys.public
        self.socket.curve_secretkey = keys.secret

    def changes(self) -> list[LinkChange]:
        """Return the changes of the connections since the last call."""
        return [
            LinkChange(_endpoint(event["endpoint"]), _meaning(event["event"], event["value"]))
            for event in events_of(self.monitor)
        ]

    def close(self) -> None:
        close_monitored((self.socket,), (self.monitor,), 0)


def _endpoint(named: bytes) -> str:
    """Return the endpoint as it was given; on reconnection ZeroMQ writes IPv4 addresses in IPv6 form."""
    return re.sub(r"\[::ffff:([\d.]+)\]", r"\1", named.decode().removeprefix("tcp://"))


def _meaning(event: int, value: int) -> str:
    if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
        return UP
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
        return NOT_ADMITTED
    if event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        # The peer closed the connection on a greeting that it could not decrypt. EAGAIN: it sent nothing.
        return NO_ANSWER if value == zmq.EAGAIN else OTHER_KEY
    return OTHER_KEY if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL else DOWN


class Subscriber(_Monitored):
    """Telemetry of any number of agents through one socket.

    An empty message tells an agent that it has a viewer. ZeroMQ sends this message once for each `connect`,
    but not when it reconnects by itself. So we disconnect from a lost agent and connect again.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], keys: KeyPair, server: bytes, queue: int
    ) -> None:
        super().__init__(context, keys, server)
        self.socket.rcvhwm = queue
        self.socket.setsockopt(zmq.PROBE_ROUTER, 1)
        self._up: set[str] = set()
        self._lost: dict[str, float] = {}  # and the time to connect again

    def connect(self, endpoint: str) -> bool:
        """Connect to this agent until `disconnect`; return False if this is not an address."""
        try:
            self.socket.connect(f"tcp://{endpoint}")
        except zmq.ZMQError:
            return False
        return True

    def disconnect(self, endpoint: str) -> None:
        self._up.discard(endpoint)
        self._lost.pop(endpoint, None)
        with suppress(zmq.ZMQError):
            self.socket.disconnect(f"tcp://{endpoint}")

    def changes(self) -> list[LinkChange]:
        """Return the changes of the connections since the last call, and connect again to lost agents."""
        now = time.monotonic()
        found = super().changes()
        for endpoint, what in found:
            if what == UP:
                self._up.add(endpoint)
            elif endpoint in self._up:
                self._up.discard(endpoint)
                self._lost[endpoint] = now + RECONNECT_MS / 1000
        for endpoint in [each for each, due in self._lost.items() if now >= due]:
            self.disconnect(endpoint)
            self.connect(endpoint)
        return found

    def take(self, limit: int) -> list[list[bytes]]:
        """Return at most `limit` messages that have arrived.

        Empty messages, with which agents detect lost viewers, are left out.
        """
        taken: list[list[bytes]] = []
        with suppress(zmq.Again):
            while len(taken) < limit:
                parts = self.socket.recv_multipart(zmq.NOBLOCK)
                if parts != [b""]:
                    taken.append(parts)
        return taken


class _SingleConnection(_Monitored):
    """A connection to one address; raises `zmq.ZMQError` for an invalid one, or without descriptors."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], keys: KeyPair, server: bytes, endpoint: str
    ) -> None:
        super().__init__(context, keys, server)
        try:
            self.socket.connect(f"tcp://{endpoint}")
        except zmq.ZMQError:
            self.close()
            raise


class RequestConnection(_SingleConnection):
    """A request to one agent, and its reply."""

    _has_heartbeats = False

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], keys: KeyPair, server: bytes, endpoint: str, raw: bytes
    ) -> None:
        super().__init__(context, keys, server, endpoint)
        self.socket.send(raw, zmq.NOBLOCK)

    def reply(self) -> list[bytes] | None:
        """Return the parts of the reply; None until it has arrived."""
        try:
            return self.socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None


class RelayConnection(_SingleConnection):
    """A connection to a relay. It is closed when it is lost: its other end would not know who came again."""

    def send(self, raw: bytes) -> None:
        with suppress(zmq.Again):  # the other end does not read, and will send nothing either
            self.socket.send(raw, zmq.NOBLOCK)

    def take(self, limit: int) -> list[bytes]:
        """Return at most `limit` messages that have arrived."""
        taken: list[bytes] = []
        with suppress(zmq.Again):
            while len(taken) < limit:
                taken.append(self.socket.recv(zmq.NOBLOCK))
        return taken
