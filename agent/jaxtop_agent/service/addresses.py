"""Chooses the address to serve on."""

from __future__ import annotations

import ipaddress
import socket

LOOPBACK = "127.0.0.1"
# A documentation address (RFC 5737). Connecting a datagram socket to it sends nothing, but selects the
# interface of the default route.
ANYWHERE = "192.0.2.1"


def first_address(bind: str) -> str:
    """Return the address to serve on before the run is known: loopback, or the one that the user gave."""
    return LOOPBACK if bind == "auto" else socket.gethostbyname(bind)


def address_towards(coordinator: str | None) -> str | None:
    """Return the address of the interface that leads to the coordinator; None if it is on this machine.

    The result is never the wildcard address, because the address served on is also the one advertised.
    """
    if not coordinator:
        return None
    host = coordinator.rpartition(":")[0].strip("[]")
    if host == "localhost" or _is_loopback(host):
        return None
    own = _way_to(host)
    if own is None or not _is_loopback(own):
        return own
    # A host often resolves its own name to 127.0.1.1, although other hosts reach it at another address.
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
