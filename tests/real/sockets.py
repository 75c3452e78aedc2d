"""Both ends of the transport for tests: an agent's, a relay between the ends, and what a viewer notices."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop.transport import ReachabilityCheck, Server
from jaxtop.transport.hub import Hub
from tests.support import eventually, free_port

if TYPE_CHECKING:
    from jaxtop.base import keys


class Agent:
    """A server, turned by the thread of the test while it waits for something."""

    def __init__(
        self, pair: keys.KeyPair, guests: set[bytes] = frozenset(), first: int | None = None
    ) -> None:
        self.guests = guests
        self.server = Server(pair, lambda: frozenset(self.guests))
        requests, telemetry = self.server.bind("127.0.0.1", first or free_port())
        self.requests, self.telemetry = local(requests), local(telemetry)
        self.came = 0
        self.asked = []

    def turn(self) -> None:
        came, asked = self.server.poll(10)
        self.came += came
        self.asked += asked

    def until(self, check):
        """Turn until the check is true; returns its answer."""
        return eventually(lambda: self.turn() or check(), every=0)

    def turn_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn()


class RelaySocket:
    """The socket of a relay, turned by the thread of the test."""

    def __init__(self, pair: keys.KeyPair) -> None:
        self.guests: set[bytes] = set()
        self.hub = Hub(pair, lambda: frozenset(self.guests))
        self.endpoint = local(self.hub.bind("127.0.0.1", free_port()))
        self.asked = []

    def turn(self) -> None:
        self.asked += self.hub.take()

    def until(self, check):
        """Turn until the check is true; returns its answer."""
        return eventually(lambda: self.turn() or check(), every=0)


class Relay:
    """A wire between viewers and an agent that remembers all that the agent sent.

    It is a tunnel as ssh makes it: where nobody listens at the other end, it hangs up.
    """

    def __init__(self, endpoint: str, at: str = "127.0.0.1:0") -> None:
        self._to = _address(endpoint)
        self._door = socket.create_server(_address(at))
        self.endpoint = "{}:{}".format(*self._door.getsockname())
        self.sent = bytearray()
        self._open = [self._door]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._door.accept()
                try:
                    there = socket.create_connection(self._to)
                except OSError:
                    here.close()
                    continue
                self._open += [here, there]
                for source, sink, heard in ((here, there, None), (there, here, self.sent)):
                    self._threads.append(threading.Thread(target=self._carry, args=(source, sink, heard)))
                    self._threads[-1].start()

    def _carry(self, source: socket.socket, sink: socket.socket, heard: bytearray | None) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if heard is not None:
                    heard += data
                sink.sendall(data)
        with suppress(OSError):  # also after a reset, with which a killed process may end
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()


def noticed(viewer, what: str):
    """A check for a change of this meaning; the others are passed by."""
    return lambda: what in [change.what for change in viewer.changes()]


def outcome_of(endpoint: str) -> str:
    """What a probe of this address finds."""
    knock = ReachabilityCheck(endpoint, time.monotonic())
    return eventually(lambda: knock.advance(time.monotonic()), every=0.01)


def _address(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    return host, int(port)


def local(port: object) -> str:
    return f"127.0.0.1:{port}"
