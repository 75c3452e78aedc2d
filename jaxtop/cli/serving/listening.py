"""The address at which a command serves HTTP, its protection, and the bounds for strangers."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.cli.errors import UserError
from jaxtop.cli.text.words import legible

if TYPE_CHECKING:
    import argparse
    import ssl

# The most connections at a time whose requests, with TLS and password or cookie, are not complete. When one
# more comes, the oldest is cut off: strangers cannot keep the user out.
MAX_STRANGERS = 64
# The seconds that such a request may take.
REQUEST_S = 5.0


class Protection(NamedTuple):
    """What a server needs to be reached from other machines."""

    certificate: Path | None = None
    key: Path | None = None
    # Lines of `user:password`.
    passwords: Path | None = None

    @property
    def is_whole(self) -> bool:
        return self.certificate is not None and self.passwords is not None


def address(text: str, default_port: int) -> tuple[str, int]:
    """Return the host and port of `HOST:PORT`, `HOST` or `:PORT`; loopback if no host is named."""
    host, _, port = text.rpartition(":") if ":" in text.rpartition("]")[2] else (text, "", "")
    if port and not is_port(port):
        raise UserError(f"--listen {text}: {port} is not a port")
    return host.strip("[]") or "127.0.0.1", int(port) if port else default_port


def is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) < 65536


def resolved(host: str, port: int, missing: str) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    """Return the family and the address to listen on.

    Raise `UserError` if other machines reach it while something that protects it is missing.
    """
    import ipaddress  # slow, as ssl is: commands that can listen rarely do

    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no host name"
        raise UserError(f"{legible(host)} is not an address of this machine: {why}") from None
    if missing and not ipaddress.ip_address(place[0]).is_loopback:
        raise UserError(
            f"{host} can be reached from other machines: that needs {missing}; "
            "without them, listen on 127.0.0.1"
        )
    return family, place[:2]


def url(host: str, port: int, context: ssl.SSLContext | None) -> str:
    """Return the address of a server, for people and programs."""
    shown = f"[{host}]" if ":" in host else host
    return f"{'http' if context is None else 'https'}://{shown}:{port}"


def add_tls_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate, to serve with TLS")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's key")


def tls_context(protection: Protection) -> ssl.SSLContext | None:
    """Return the TLS settings of a server; None where it serves without TLS."""
    if protection.certificate is None:
        if protection.key is not None:
            raise UserError("--tls-key needs --tls-cert")
        return None
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(protection.certificate, protection.key)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"{protection.certificate} is no certificate with its key: {error}") from None
    return context
