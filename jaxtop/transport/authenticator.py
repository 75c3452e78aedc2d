"""Authentication: the answers to ZeroMQ's authentication protocol (ZAP, RFC 27)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq
from zmq.utils import z85

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.base.keys import KeyPair

OWNER = "owner"
GUEST = "guest "  # and the public key
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


def sender_of(message: zmq.Frame) -> str:
    """Return whom the authenticator admitted as the sender of this message."""
    try:
        return str(message.get("User-Id"))
    except zmq.ZMQError:
        return ""


def is_from_owner(message: zmq.Frame) -> bool:
    """Return whether the authenticator admitted the sender of this message as the owner."""
    return sender_of(message) == OWNER


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
        self._refused: set[str] = set()
        self.socket = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind("inproc://zeromq.zap.01")

    def answer(self) -> None:
        parts = self.socket.recv_multipart()
        request_id = parts[1] if len(parts) > 1 else b""
        role = self._role(parts)
        verdict = (b"400", b"this key is not admitted", b"")
        if role is not None and role not in self._refused:
            verdict = (b"200", b"OK", role.encode())
        self.socket.send_multipart([b"1.0", request_id, *verdict, b""])

    def refuse(self, sender: str) -> None:
        """Refuse this guest from now on. The owner is never refused."""
        if sender.startswith(GUEST):
            self._refused.add(sender)

    def _role(self, parts: list[bytes]) -> str | None:
        if len(parts) != 7 or parts[0] != b"1.0" or parts[2] != DOMAIN or parts[5] != b"CURVE":
            return None
        public = z85.encode(parts[6])
        if public == self._owner:
            return OWNER
        # Read only for other keys: the owner's handshake must not wait for a file system.
        return GUEST + public.decode() if public in self._guests() else None
