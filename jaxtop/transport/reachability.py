"""Find out why an address does not answer, by connecting to it.

ZeroMQ's I/O thread greets every connection at once and without Python. So a connection that is greeted
belongs to a running process, whatever its Python does. One that is accepted but not greeted belongs to a
stopped process: the kernel accepts on its behalf.
"""

from __future__ import annotations

import errno
import socket
from contextlib import suppress
from enum import Enum, auto

GREETED_WITHIN = 1.5
UNREACHABLE_AFTER = 1.5

# Both sides of ZMTP begin with this. An agent's kernel holds back connections that send nothing.
SIGNATURE = b"\xff" + bytes(8) + b"\x7f"


class Outcome(Enum):
    """The outcome of an attempt to connect to an address."""

    GREETED = auto()
    # The connection was accepted, but no greeting came.
    NOT_GREETED = auto()
    CLOSED = auto()
    # The connection was made and then ended, as a forwarder does, or the peer does not speak ZeroMQ.
    HUNG_UP = auto()
    UNREACHABLE = auto()


class ReachabilityCheck:
    """One attempt, without blocking: poll `fileno`, then call `advance`."""

    def __init__(self, endpoint: str, now: float) -> None:
        self.endpoint = endpoint
        self._since = now
        self._connected = False
        self.outcome: Outcome | None = None
        host, _, port = endpoint.rpartition(":")
        host = host.strip("[]")
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setblocking(False)
        try:
            code = self._socket.connect_ex((host, int(port)))
        except (OSError, OverflowError, ValueError):  # addresses from rosters may be malformed
            code = errno.EHOSTUNREACH
        if code not in (0, errno.EINPROGRESS):
            self._settle(_meaning(code))

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._socket.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether the connection is still being made."""
        return not self._connected

    def advance(self, now: float) -> Outcome | None:
        """Check without waiting; return the outcome once there is one."""
        if self.outcome is None and not self._connected:
            self._check_connection(now)
        if self.outcome is None and self._connected:
            self._check_greeting(now)
        return self.outcome

    def _check_connection(self, now: float) -> None:
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._settle(_meaning(code))
            return
        try:
            self._socket.getpeername()
        except OSError:
            if now - self._since > UNREACHABLE_AFTER:
                self._settle(Outcome.UNREACHABLE)
            return
        self._connected = True
        self._since = now
        with suppress(OSError):
            self._socket.send(SIGNATURE)

    def _check_greeting(self, now: float) -> None:
        try:
            greeting = self._socket.recv(10)
        except BlockingIOError:
            if now - self._since > GREETED_WITHIN:
                self._settle(Outcome.NOT_GREETED)
        except OSError:
            self._settle(Outcome.HUNG_UP)
        else:
            self._settle(Outcome.GREETED if greeting.startswith(b"\xff") else Outcome.HUNG_UP)

    def _settle(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._socket.close()

    def close(self) -> None:
        self._socket.close()


def _meaning(code: int) -> Outcome:
    is_refused = code in (errno.ECONNREFUSED, errno.ECONNRESET)
    return Outcome.CLOSED if is_refused else Outcome.UNREACHABLE
