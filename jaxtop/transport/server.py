"""The agent's side: telemetry for viewers and answers to requests. Nothing here blocks."""

from __future__ import annotations

import math
import os
import socket
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import zmq

from jaxtop.base import room
from jaxtop.transport.accepting import numbers
from jaxtop.transport.authenticator import Authenticator, is_from_owner, router
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


def take_asked(requests: zmq.Socket[bytes], most: int) -> list[ReceivedRequest]:
    """Return the requests that have arrived at a socket behind the authenticator."""
    taken: list[ReceivedRequest] = []
    with suppress(zmq.Again):
        while len(taken) < most:
            parts = requests.recv_multipart(zmq.NOBLOCK, copy=False)
            if len(parts) == 2:
                taken.append(ReceivedRequest(parts[0].bytes, is_from_owner(parts[1]), parts[1].bytes))
    return taken


class Server:
    """Telemetry and answers behind one authenticator; created, used and closed by one thread."""

    def __init__(self, keys: KeyPair, guests: Callable[[], frozenset[bytes]]) -> None:
        room.require_descriptors(DESCRIPTORS)
        room.require_threads(THREADS)
        before = frozenset(numbers("/proc/self/task"))
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._authenticator = Authenticator(self._context, keys, guests)
        self._telemetry = TelemetrySocket(router(self._context, keys, QUEUE, MAX_SENT))
        self._requests = router(self._context, keys, QUEUE, MAX_REQUEST)
        self.own_threads = frozenset(numbers("/proc/self/task")) - before
        self._answers_from = 0.0
        self._listener = Listener((self._telemetry.socket, self._requests), KERNEL_BUFFER)
        self._poller = zmq.Poller()
        for each in (self._authenticator.socket, *self._listener.monitors):
            self._poller.register(each, zmq.POLLIN)

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
        requests = self._listener.bind(self._requests, host, first)
        telemetry = self._listener.bind(self._telemetry.socket, host, requests + 1)
        return requests, telemetry

    def poll(self, timeout_ms: int) -> tuple[bool, list[ReceivedRequest]]:
        """Wait; return whether a viewer came, and the requests. Handshakes are answered meanwhile."""
        now = time.monotonic()
        self._telemetry.check(now)
        reads = {self._telemetry.socket: self._telemetry.rests_until, self._requests: self._answers_from}
        for each, rests_until in reads.items():
            self._poller.register(each, zmq.POLLIN if now >= rests_until else 0)
            if now < rests_until:
                timeout_ms = min(timeout_ms, math.ceil((rests_until - now) * 1000))
        if (shut_for := self._listener.wakes_in(now)) is not None:
            timeout_ms = min(timeout_ms, math.ceil(shut_for * 1000))
        ready = dict(self._poller.poll(timeout_ms))
        self._listener.guard(time.monotonic())
        if self._authenticator.socket in ready:
            self._authenticator.answer()
        came = self._telemetry.socket in ready and self._telemetry.take()
        return came, take_asked(self._requests, QUEUE) if self._requests in ready else []

    def rest(self, seconds: float) -> None:
        """Take no requests for this long; requests wait in our queue, then in the sender's."""
        self._answers_from = time.monotonic() + seconds

    def publish(self, parts: list[bytes]) -> None:
        """Send to every viewer; one whose queue is full misses the message, and detects the gap."""
        self._telemetry.send(parts)

    def reply(self, to: bytes, parts: list[bytes]) -> None:
        """Answer one request; a sender that left, or does not read, misses the answer."""
        with suppress(zmq.ZMQError):
            self._requests.send_multipart([to, *parts], zmq.NOBLOCK)

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
        for fd in numbers("/proc/self/fd"):
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
