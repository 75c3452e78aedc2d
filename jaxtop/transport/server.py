"""The agent's side: telemetry for viewers and replies to requests. Nothing here blocks."""

from __future__ import annotations

import math
import os
import socket
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import zmq

from jaxtop.base import debuglog, room
from jaxtop.base.processes import numbers_in
from jaxtop.transport.authenticator import Authenticator, is_from_owner, router
from jaxtop.transport.first_messages import FirstMessages, SentTwice
from jaxtop.transport.listener import Listener
from jaxtop.transport.telemetry import MAX_SENT, TelemetrySocket

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.base.keys import KeyPair

FIRST_PORT = 7410

# A stalled viewer costs at most this many messages of at most wire.MAX_TELEMETRY, plus the kernel's buffer.
QUEUE = 16
KERNEL_BUFFER = 256 * 1024
MAX_REQUEST = 64 * 1024
FAREWELL_MS = 200
# The descriptors and threads that the sockets need when they are created, with some reserve.
DESCRIPTORS = 24
DESCRIPTORS_TO_BIND = 8
THREADS = 4


class ReceivedRequest(NamedTuple):
    """A request as it arrived: the return address, whether the sender is the owner, and the raw bytes."""

    sender: bytes
    is_owner: bool
    raw: bytes


class Server:
    """Telemetry and replies behind one authenticator; created, used and closed by one thread."""

    def __init__(self, keys: KeyPair, guests: Callable[[], frozenset[bytes]]) -> None:
        room.require_descriptors(DESCRIPTORS)
        room.require_threads(THREADS)
        before = frozenset(numbers_in("/proc/self/task"))
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._keys = keys
        self._authenticator = Authenticator(self._context, keys, guests)
        self._telemetry = TelemetrySocket(self._router(MAX_SENT))
        self._requests = FirstMessages(self._router(MAX_REQUEST))
        self.own_threads = frozenset(numbers_in("/proc/self/task")) - before
        self._replies_from = 0.0
        guarded = (self._telemetry.socket, self._requests.socket)
        self._listener = Listener(guarded, self._authenticator.socket, KERNEL_BUFFER)
        self._poller = zmq.Poller()
        for each in (self._authenticator.socket, *self._listener.monitors):
            self._poller.register(each, zmq.POLLIN)

    def _router(self, max_message: int) -> zmq.Socket[bytes]:
        return router(self._context, self._keys, QUEUE, max_message)

    @property
    def viewers(self) -> int:
        return self._telemetry.count

    @property
    def missed(self) -> int:
        """The number of messages that did not fit into a viewer's queue."""
        return self._telemetry.missed

    def watch_file(self, fd: int) -> None:
        """Let this descriptor wake `poll`, too."""
        self._poller.register(fd, zmq.POLLIN)

    def bind(self, host: str, first: int = FIRST_PORT) -> tuple[int, int]:
        """Take the first two free ports of this address; return those of requests and of telemetry."""
        room.require_descriptors(DESCRIPTORS_TO_BIND)
        requests = self._listener.bind(self._requests.socket, host, first)
        telemetry = self._listener.bind(self._telemetry.socket, host, requests + 1)
        return requests, telemetry

    def poll(self, timeout_ms: int) -> tuple[bool, list[ReceivedRequest]]:
        """Wait; return whether a viewer came, and the requests. Handshakes are answered meanwhile."""
        now = time.monotonic()
        self._telemetry.check(now)
        self._poller.register(self._telemetry.socket, zmq.POLLIN)
        self._poller.register(self._requests.socket, zmq.POLLIN if now >= self._replies_from else 0)
        if now < self._replies_from:
            timeout_ms = min(timeout_ms, math.ceil((self._replies_from - now) * 1000))
        if (shut_for := self._listener.wakes_in(now)) is not None:
            timeout_ms = min(timeout_ms, math.ceil(shut_for * 1000))
        ready = dict(self._poller.poll(timeout_ms))
        self._listener.guard(time.monotonic(), ready)
        if self._authenticator.socket in ready:
            self._authenticator.answer()
        came = self._telemetry.socket in ready and self._take_viewers()
        return came, self._take_requests() if self._requests.socket in ready else []

    def _take_viewers(self) -> bool:
        try:
            return self._telemetry.take()
        except SentTwice as peer:
            missed = self._telemetry.missed
            self._telemetry = TelemetrySocket(self._replace(self._telemetry.socket, MAX_SENT, peer.sender))
            self._telemetry.missed = missed
            return False

    def _take_requests(self) -> list[ReceivedRequest]:
        """Return the requests that have arrived; none if a peer sent two: viewers then retry."""
        try:
            return [
                ReceivedRequest(sender, is_from_owner(message), message.bytes)
                for sender, message in self._requests.take(QUEUE)
            ]
        except SentTwice as peer:
            self._requests = FirstMessages(self._replace(self._requests.socket, MAX_REQUEST, peer.sender))
            return []

    def _replace(self, old: zmq.Socket[bytes], max_message: int, sender: str) -> zmq.Socket[bytes]:
        """Open another socket at the same addresses for the one on which a peer sent twice.

        All its connections are lost. Viewers come again; a guest that did this is not admitted any more.
        """
        debuglog.warning("server", "a peer sent a second message, so the socket was replaced", sender)
        self._authenticator.refuse(sender)
        for each in (old, *self._listener.monitors):
            self._poller.unregister(each)
        new = self._listener.replace(old, lambda: self._router(max_message))
        for each in self._listener.monitors:
            self._poller.register(each, zmq.POLLIN)
        return new

    def rest(self, seconds: float) -> None:
        """Take no requests for this long; requests wait in our queue, then in the sender's."""
        self._replies_from = time.monotonic() + seconds

    def publish(self, parts: list[bytes]) -> None:
        """Send to every viewer; one whose queue is full misses the message, and detects the gap."""
        self._telemetry.send(parts)

    def reply(self, receiver: bytes, parts: list[bytes]) -> None:
        """Reply to one request; a sender that left, or does not read, misses the reply."""
        with suppress(zmq.ZMQError):
            self._requests.socket.send_multipart([receiver, *parts], zmq.NOBLOCK)

    def close(self) -> None:
        """Close; if there are viewers, allow the last messages a moment to leave."""
        self._listener.close(FAREWELL_MS if self.viewers else 0)
        self._context.destroy(linger=0)

    def after_fork(self) -> None:
        """In a forked child, release the parent's connections, which would otherwise outlive the parent.

        The descriptors stay taken (as /dev/null), so that no other file gets their numbers while the copy of
        ZeroMQ's state in this process still refers to them.
        """
        null, ports = os.open(os.devnull, os.O_RDWR), self._listener.ports()
        for fd in numbers_in("/proc/self/fd"):
            if fd != null and _local_port(fd) in ports:
                os.dup2(null, fd)
        os.close(null)


def _local_port(fd: int) -> int | None:
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            return None
        twin = socket.socket(fileno=os.dup(fd))
    except OSError:
        return None
    with twin:
        try:
            address = twin.getsockname()
        except OSError:
            return None
    return address[1] if twin.family in (socket.AF_INET, socket.AF_INET6) else None
