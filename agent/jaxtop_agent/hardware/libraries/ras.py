"""Questions to NCCL's RAS service: the thread of NCCL in this process that knows all ranks of the job.

The protocol is that of NCCL's own client: lines of text over TCP, on loopback by default. Each question makes
the service ask every process of the job, so it is asked rarely and by one process.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

PORT = 28028
LOOPBACK = ("127.0.0.1", "::1")
CONNECTS_WITHIN = 1.0
# The service waits this long for each leg of its own question, and at most twice as long for all.
LEG_S = 5
ANSWERS_WITHIN = 2.0 * LEG_S + 2
# The most bytes of an answer: thousands of ranks in several communicators.
MOST_BYTES = 8 << 20
LONGEST_LINE = 1024
# A wait ends within this time when the agent stops.
SLICE = 0.2


class RasFailed(Exception):
    """The service is absent, does not answer in time, or speaks another protocol."""


class RasAnswer(NamedTuple):
    """The answer as it came; older versions have only text."""

    raw: bytes
    is_json: bool


def address() -> tuple[tuple[str, ...], int]:
    """Return the hosts to try, and the port: of NCCL_RAS_ADDR, else NCCL's default."""
    host, colon, port = os.environ.get("NCCL_RAS_ADDR", "").strip().rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        return LOOPBACK, PORT
    host = host.strip("[]")
    is_any = host in {"", "localhost", "0.0.0.0", "::"}  # noqa: S104 - we connect to it, and bind nothing
    return (LOOPBACK if is_any else (host,)), int(port)


def request(is_stopping: Callable[[], bool]) -> RasAnswer:
    """Return the state of all communicators of the job."""
    hosts, port = address()
    with _connected(hosts, port) as connection:
        try:
            return _Conversation(connection, is_stopping).status()
        except TimeoutError:
            raise RasFailed("no answer in time") from None
        except OSError as error:
            raise RasFailed(error.strerror or type(error).__name__) from None


def _connected(hosts: tuple[str, ...], port: int) -> socket.socket:
    failure = ""
    for host in hosts:
        try:
            return socket.create_connection((host, port), timeout=CONNECTS_WITHIN)
        except OSError as error:
            failure = failure or f"{host}:{port}: {error.strerror or 'no answer in time'}"
    raise RasFailed(failure)


class _Conversation:
    def __init__(self, connection: socket.socket, is_stopping: Callable[[], bool]) -> None:
        self._connection = connection
        self._connection.settimeout(SLICE)
        self._is_stopping = is_stopping
        self._ends = time.monotonic() + ANSWERS_WITHIN
        self._rest = b""

    def status(self) -> RasAnswer:
        if not self._reply_to("CLIENT PROTOCOL 2").startswith("SERVER PROTOCOL "):
            raise RasFailed("it is not NCCL's RAS service")
        self._reply_to(f"TIMEOUT {LEG_S}")
        # Versions before 2.28.7 refuse the format, and answer in text.
        is_json = self._reply_to("SET FORMAT json") == "OK"
        self._send("VERBOSE STATUS")
        parts, size = [self._rest], len(self._rest)
        while part := self._receive():
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise RasFailed("the answer does not end")
        return RasAnswer(b"".join(parts), is_json)

    def _reply_to(self, command: str) -> str:
        """Send a command and return the line that answers it."""
        self._send(command)
        while b"\n" not in self._rest:
            part = self._receive()
            if not part or len(self._rest) > LONGEST_LINE:
                raise RasFailed("it is not NCCL's RAS service")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace").strip()

    def _send(self, command: str) -> None:
        self._connection.sendall(f"{command}\n".encode())

    def _receive(self) -> bytes:
        """Return what came; empty at the end of the answer."""
        while not self._is_stopping() and time.monotonic() < self._ends:
            try:
                return self._connection.recv(1 << 16)
            except TimeoutError:
                continue
        raise TimeoutError
