"""The listening sockets of an agent, and a bound on the connections that they accept.

ZeroMQ's I/O thread accepts every connection, and each takes a descriptor of the training process. So we
create the listening sockets ourselves. The kernel holds back connections that send nothing; connections
beyond the bound are ended; while too many arrive, no new ones are accepted for a second. Where few
descriptors are left, a burst would take all of them before we see it: there connections are accepted one at
a time.
"""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import zmq

from jaxtop.base.room import NoRoom
from jaxtop.transport.monitors import close_monitored, events_of, monitor_of
from jaxtop.transport.single_accept import Entry, drop_waiting, entry

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

PORTS = 2048
# While a process is stopped, its viewers' connection attempts queue in the kernel. Once this queue is full, a
# stopped process looks like a broken network.
BACKLOG = 4096
# After this many seconds without data the kernel passes a connection on. Viewers and probes send at once.
SPEAKS_WITHIN = 30
# The number of connections of all viewers and requests.
MAX_CONNECTIONS = 128
# Connections may use one part in this many of the free descriptors.
DESCRIPTOR_FRACTION = 4
# With fewer free descriptors than this, connections are accepted one at a time. The cost: while Python is
# blocked, only one more connection is greeted, and a new viewer takes the process for stopped.
MIN_FREE_DESCRIPTORS = 512
COUNT_EVERY_S = 1.0
ADDED_WITHIN_S = 1.0
# While this many come a second, their queue is short: a viewer's connection would wait behind all in it.
CROWD_A_SECOND, SHORT_BACKLOG = 8, 16
# A team that connects all at once makes this many connections a second. After more, we accept none for
# SHUT_S.
MOST_A_SECOND, SHUT_S = 64, 1.0
# A peer with the key has sent more than this by the end of its handshake; no peer without it gets that far.
HANDSHAKE_BYTES = 400
# The bytes that a connection may send: more than any viewer's handshake, longest request and two signs of
# life a second.
ALLOWED_BYTES, ALLOWED_A_SECOND = 1 << 17, 1024
_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_ACCEPT_FAILED | zmq.EVENT_DISCONNECTED
_BYTES_RECEIVED_AT = 128  # in the kernel's struct tcp_info
_ATTACH_FILTER, _DETACH_FILTER = 26, 27  # SO_ATTACH_FILTER, SO_DETACH_FILTER


@dataclass
class _ListeningSocket:
    """A listening socket of ours, which of the guarded sockets it serves, and ZeroMQ's copy of it."""

    listening: socket.socket
    serves: int
    address: str
    copy: int = -1


class Listener:
    """Listens for the sockets it is given; used only by the thread that owns them."""

    def __init__(
        self, guarded: Iterable[zmq.Socket[bytes]], authenticator: zmq.Socket[bytes], send_buffer: int
    ) -> None:
        self._authenticator = authenticator
        self._send_buffer = send_buffer
        self._listening: list[_ListeningSocket] = []
        self._open: dict[tuple[int, int], float] = {}  # time of acceptance, by socket and descriptor
        self._ended: set[tuple[int, int]] = set()
        self._came: list[float] = []
        self._shut_until: float | None = None
        # Listening sockets that accept one connection at a time, and whether they wait for the next one.
        self._entries: list[Entry] = []
        self._are_armed = self._is_crowded = False
        self._counted = 0.0
        self._guarded = list(guarded)
        self._spare = os.open(os.devnull, os.O_RDONLY)
        self.monitors = [monitor_of(each, _EVENTS) for each in self._guarded]

    def ports(self) -> list[int]:
        return [each.listening.getsockname()[1] for each in self._listening]

    def bind(self, bound: zmq.Socket[bytes], host: str, first: int, ports: int = PORTS) -> int:
        """Serve this socket at the first free of these ports of an address, and return the port."""
        for port in range(first, min(first + ports, 65536)):
            listening = self._listen(host, port)
            if listening is not None:
                break
        else:
            raise OSError(f"no free port on {host} from {first} up")
        address = f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
        listening_socket = _ListeningSocket(listening, self._guarded.index(bound), address)
        try:
            self._open_socket(listening_socket)
        except zmq.ZMQError:
            listening.close()
            raise
        self._listening.append(listening_socket)
        self._count_descriptors(time.monotonic())
        return port

    def _open_socket(self, listening_socket: _ListeningSocket) -> None:
        listening_socket.copy = os.dup(listening_socket.listening.fileno())
        try:
            self._guarded[listening_socket.serves].setsockopt(zmq.USE_FD, listening_socket.copy)
            self._guarded[listening_socket.serves].bind(listening_socket.address)
        except zmq.ZMQError:
            os.close(listening_socket.copy)
            raise

    def replace(self, old: zmq.Socket[bytes], make: Callable[[], zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
        """Close a guarded socket with all its connections, and serve another one at its addresses."""
        which = self._guarded.index(old)
        close_monitored((old,), (self.monitors[which],), 0, self._authenticator)
        self._open = {key: at for key, at in self._open.items() if key[0] != which}
        self._ended = {key for key in self._ended if key[0] != which}
        new = self._guarded[which] = make()
        self.monitors[which] = monitor_of(new, _EVENTS)
        for listening_socket in self._listening:
            if listening_socket.serves == which:
                self._open_socket(listening_socket)
        self._entries = []
        self._count_descriptors(time.monotonic())
        return new

    def _listen(self, host: str, port: int) -> socket.socket | None:
        """Return a listening socket at this port; None if the port is taken."""
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)
            if hasattr(socket, "TCP_DEFER_ACCEPT"):
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, SPEAKS_WITHIN)
            listening.bind((host, port))
            listening.listen(BACKLOG)
        except OSError as error:
            listening.close()
            if error.errno == zmq.EADDRINUSE:
                return None
            raise
        return listening

    def wakes_in(self, now: float) -> float | None:
        """Return the seconds until `guard` has to run; None if it has only to react to connections."""
        return None if self._shut_until is None else max(0.0, self._shut_until - now)

    def guard(self, now: float, happened: Container[zmq.Socket[bytes]]) -> None:
        """Register connections that opened and closed, and enforce the bound.

        `happened` has those of the monitors that have something to tell.
        """
        came = self._take_in(now, happened)
        self._came = [at for at in self._came if now - at < 1.0] + [now] * came
        if came:
            excess = len(self._open) - len(self._ended) - most_connections(len(self._open))
            if excess > 0:
                self._end(excess)
            if len(self._came) > MOST_A_SECOND or (excess > 0 and not self._entries):
                self._shut_until = now + SHUT_S
                self._filter(_ATTACH_FILTER)
        if self._shut_until is not None and now >= self._shut_until:
            self._shut_until = None
            self._filter(_DETACH_FILTER)
        if now - self._counted >= COUNT_EVERY_S:
            self._count_descriptors(now)
            self._end_floods(now)
        if self._entries:
            self._admit()

    def _count_descriptors(self, now: float) -> None:
        """Accept connections one at a time from now on if few descriptors are left, else all."""
        self._counted, self._are_armed = now, False
        if descriptors_left() + len(self._open) >= MIN_FREE_DESCRIPTORS:
            for each in self._entries:
                each.accept_all()
            self._entries = []
            self._set_backlog(is_crowded=False)
        elif len(self._entries) < len(self._listening):
            self._entries = [_entry(each.copy) for each in self._listening]

    def _admit(self) -> None:
        """Let each listening socket accept one more connection, unless there are too many."""
        self._set_backlog(is_crowded=len(self._came) >= CROWD_A_SECOND or self._shut_until is not None)
        if not self._are_armed and len(self._open) <= most_connections(len(self._open)):
            self._are_armed = True
            for each in self._entries:
                each.accept_one()

    def _set_backlog(self, *, is_crowded: bool) -> None:
        if is_crowded != self._is_crowded:
            self._is_crowded = is_crowded
            for each in self._listening:
                each.listening.listen(SHORT_BACKLOG if is_crowded else BACKLOG)
                if is_crowded:
                    drop_waiting(each.listening.fileno(), BACKLOG)

    def _take_in(self, now: float, happened: Container[zmq.Socket[bytes]]) -> int:
        came = 0
        for which, monitor in enumerate(self.monitors):
            if monitor not in happened:
                continue
            for event in events_of(monitor):
                key = which, event["value"]
                if event["event"] != zmq.EVENT_DISCONNECTED:
                    self._are_armed = False
                if event["event"] == zmq.EVENT_ACCEPTED:
                    came += 1
                    self._open[key] = now
                    self._ended.discard(key)
                elif event["event"] == zmq.EVENT_DISCONNECTED:
                    self._open.pop(key, None)
                    self._ended.discard(key)
        return came

    def _end(self, excess: int) -> None:
        """End this many connections: first the oldest that show no key, then the newest of all."""
        candidates = [key for key in self._open if key not in self._ended]
        strangers = (
            key for key in candidates if self._call_with_connection(key[1], _received) < HANDSHAKE_BYTES
        )
        for key in chain(strangers, reversed(candidates)):
            if excess <= 0:
                return
            if key not in self._ended:
                excess -= 1
                self._end_one(key)

    def _end_one(self, key: tuple[int, int]) -> None:
        if self._call_with_connection(key[1], _shut_down):
            self._ended.add(key)
        else:  # its end was not reported
            self._open.pop(key, None)

    def _end_floods(self, now: float) -> None:
        """End the connections that sent far more than viewers do.

        A message of endless parts reaches us only when it is complete, and takes memory until then.
        """
        for key, since in list(self._open.items()):
            allowed = ALLOWED_BYTES + ALLOWED_A_SECOND * (now - since)
            if key not in self._ended and self._call_with_connection(key[1], _received) > allowed:
                self._end_one(key)

    def _call_with_connection(self, fd: int, do: Callable[[socket.socket], int]) -> int:
        """Call `do` with a connection; return 0 if it is not ours, as the descriptor may now be another file.

        The call uses a reserved descriptor, so that it works when no others are free.
        """
        try:
            os.dup2(fd, self._spare, inheritable=False)
            twin = socket.socket(fileno=self._spare)
        except OSError:
            return 0
        try:
            return do(twin) if twin.getsockname()[1] in self.ports() else 0
        except (OSError, struct.error, TypeError, IndexError):  # it has ended, or is another kind of socket
            return 0
        finally:
            twin.detach()
            os.dup2(self._listening[0].listening.fileno(), self._spare, inheritable=False)

    def _filter(self, option: int) -> None:
        """Make the kernel drop, or accept again, what is sent to the listening sockets."""
        drop_all = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF: return 0
        program = struct.pack("HL", 1, ctypes.addressof(drop_all))
        for each in self._listening:
            with suppress(OSError):  # a kernel without filters: new connections are only ended
                each.listening.setsockopt(socket.SOL_SOCKET, option, program)

    def close(self, linger_ms: int) -> None:
        """Close the guarded sockets, and allow their last messages `linger_ms` to leave."""
        close_monitored(self._guarded, self.monitors, linger_ms, self._authenticator)
        for each in self._listening:
            each.listening.close()
        os.close(self._spare)


def _entry(fd: int) -> Entry:
    """Wait until ZeroMQ has added this listening socket to its epoll set."""
    end = time.monotonic() + ADDED_WITHIN_S
    while time.monotonic() < end:
        if (found := entry(fd)) is not None:
            return found
        time.sleep(0.001)
    raise NoRoom(
        f"less than {MIN_FREE_DESCRIPTORS} file descriptors are left, and connections cannot be limited here"
    )


def most_connections(own: int = 0) -> int:
    """Return how many connections may be open, if `own` of them already are."""
    return max(0, min(MAX_CONNECTIONS, (descriptors_left() + own) // DESCRIPTOR_FRACTION))


def descriptors_left() -> int:
    """Return how many files this process can still open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    folder = "/proc/self/fd"  # its size is 0 before Linux 6.2
    try:
        return limit - (os.stat(folder).st_size or len(os.listdir(folder)))  # noqa: PTH116, PTH208 - makes no Path
    except OSError:
        return limit


def _received(connection: socket.socket) -> int:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int(struct.unpack_from("Q", info, _BYTES_RECEIVED_AT)[0])


def _shut_down(connection: socket.socket) -> int:
    """End this connection so that ZeroMQ notices; ZeroMQ closes its own descriptor."""
    connection.shutdown(socket.SHUT_RDWR)
    return 1
