"""Authentication: the answers to ZeroMQ's authentication protocol (ZAP, RFC 27)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq
from zmq.utils import z85

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.base.keys import KeyPair

OWNER = b"owner"
GUEST = b"guest"
DOMAIN = b"jaxtop"


def router(
    context: zmq.Context[zmq.Socket[bytes]], keys: KeyPair, queue: int, max_message: int
) -> zmq.Socket[bytes]:
    """Return a listening socket behind the authenticator of its context.

    At most `queue` messages wait for one viewer, which may send messages of at most `max_message` bytes.
    """
    opened = context.socket(zmq.ROUTER)
    opened.linger = 0
    opened.sndhwm = queue
    opened.rcvhwm = queue
    opened.setsockopt(zmq.MAXMSGSIZE, max_message)
    opened.setsockopt(zmq.HANDSHAKE_IVL, 5000)
    opened.setsockopt(zmq.IPV6, 1)
    opened.zap_domain = DOMAIN
    opened.curve_server = True
    opened.curve_secretkey = keys.secret
    return opened


def is_from_owner(message: zmq.Frame) -> bool:
    """Return whether the authenticator admitted the sender of this message as the owner."""
    try:
        return message.get("User-Id") == OWNER.decode()
    except zmq.ZMQError:
        return False


class Authenticator:
    """Admits the owner's key, and colleagues as guests; polled by the thread that owns the sockets.

    pyzmq's own authenticator needs a thread and an event loop (7 MB in the training process). One that is
    polled together with the sockets behind it cannot be missing while they are open.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], owner: KeyPair, guests: Callable[[], frozenset[bytes]]
    ) -> None:
        self._owner = owner.public
        self._guests = guests
        self.socket = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind("inproc://zeromq.zap.01")

    def answer(self) -> None:
        parts = self.socket.recv_multipart()
        request_id = parts[1] if len(parts) > 1 else b""
        role = self._role(parts)
        verdict = (b"400", b"this key is not admitted", b"") if role is None else (b"200", b"OK", role)
        self.socket.send_multipart([b"1.0", request_id, *verdict, b""])

    def _role(self, parts: list[bytes]) -> bytes | None:
        if len(parts) != 7 or parts[0] != b"1.0" or parts[2] != DOMAIN or parts[5] != b"CURVE":
            return None
        public = z85.encode(parts[6])
        if public == self._owner:
            return OWNER
        # Read only for other keys: the owner's handshake must not wait for a file system.
        return GUEST if public in self._guests() else None
