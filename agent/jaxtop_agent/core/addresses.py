"""Which address to serve on."""

from __future__ import annotations

import ipaddress
import socket

LOOPBACK = "127.0.0.1"
# Documentation addresses (RFC 5737): connecting a datagram socket sends nothing, and tells our way out.
ANYWHERE = "192.0.2.1"


def first_address(bind: str) -> str:
    """Where to serve before anything is known of the run: loopback, or what the user said."""
    return LOOPBACK if bind == "auto" else socket.gethostbyname(bind)


def address_towards(coordinator: str | None) -> str | None:
    """The address of the interface that leads to the coordinator; None if the run stays on this machine.

    Never the wildcard: what is opened is also what is advertised.
    """
    if not coordinator:
        return None
    host = coordinator.rpartition(":")[0].strip("[]")
    if host == "localhost" or _is_loopback(host):
        return None
    own = _way_to(host)
    if own is None or not _is_loopback(own):
        return own
    # The host's own name often stands for 127.0.1.1 on the host itself, though others reach it elsewhere.
    way_out = _way_to(ANYWHERE)
    return None if way_out is None or _is_loopback(way_out) else way_out


def _way_to(host: str) -> str | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as way:
            way.connect(address)
            return str(way.getsockname()[0])
    except OSError:
        return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
