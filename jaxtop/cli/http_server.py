"""A small HTTP server for pages that are computed on request, with TLS and passwords."""

from __future__ import annotations

import base64
import hmac
import ipaddress
import socket
import ssl
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from jaxtop import __version__, debuglog
from jaxtop.cli.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

# So many clients at a time; a client that says nothing for so long is dropped.
MOST_CLIENTS, PATIENCE_S = 16, 10.0


class Page(NamedTuple):
    """An answer."""

    body: bytes
    content_type: str
    status: int = 200


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
    if port and not (port.isdecimal() and int(port) < 65536):
        raise UserError(f"--listen {text}: {port} is not a port")
    return host.strip("[]") or "127.0.0.1", int(port) if port else default_port


class Server:
    """Serves pages by path on threads of its own, within a `with` block."""

    def __init__(
        self, host: str, port: int, pages: Mapping[str, Callable[[str], Page]], protection: Protection
    ) -> None:
        resolved = _resolved(host, port)
        if not ipaddress.ip_address(resolved[4][0]).is_loopback and not protection.is_whole:
            raise UserError(
                f"{host} can be reached from other machines: that needs --tls-cert, --tls-key and --auth; "
                "without them, listen on 127.0.0.1"
            )
        accepted, context = _accepted(protection.passwords), _context(protection)
        handler = type("Handler", (_Handler,), {"pages": pages, "accepted": accepted})
        server = type("Listener", (_Listener,), {"address_family": resolved[0]})
        try:
            self._server = server(resolved[4][:2], handler)
        except OSError as error:
            raise UserError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        if context is not None:
            # The handshake is the affair of the client's thread: a silent client must not hold up others.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        scheme = "https" if context is not None else "http"
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{scheme}://{shown}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="jaxtop http", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    _clients = threading.BoundedSemaphore(MOST_CLIENTS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._clients.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._clients.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the signature is given
        debuglog.info("http", f"a client at {client_address[0]} was dropped")


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE_S
    server_version, sys_version = f"jaxtop/{__version__}", ""
    protocol_version = "HTTP/1.1"
    pages: Mapping[str, Callable[[str], Page]]
    accepted: frozenset[bytes] | None

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if not self._is_admitted():
            self._send(Page(b"a user and a password are needed\n", "text/plain", 401))
        elif (write := self.pages.get(path)) is None:
            known = " ".join(sorted(self.pages))
            self._send(Page(f"there is no {path[:80]!r}; there are: {known}\n".encode(), "text/plain", 404))
        else:
            try:
                page = write(self.headers.get("Accept", ""))
            except Exception as error:  # noqa: BLE001 - the next request may work
                debuglog.warning("http", f"{path} failed", error=error)
                page = Page(f"{type(error).__name__}: {error}\n".encode(), "text/plain", 500)
            self._send(page)

    do_HEAD = do_GET  # noqa: N815 - the base class names it

    def _is_admitted(self) -> bool:
        if self.accepted is None:
            return True
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        with suppress(ValueError):
            if scheme.lower() == "basic":
                decoded = base64.b64decode(given, validate=True)
                return any(hmac.compare_digest(decoded, each) for each in self.accepted)
        return False

    def _send(self, page: Page) -> None:
        self.send_response(page.status)
        if page.status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="jaxtop", charset="UTF-8"')
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature is given
        debuglog.debug("http", format % args)


def _resolved(host: str, port: int) -> Any:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise UserError(f"{host} is not an address of this machine: {error.strerror}") from None


def _context(protection: Protection) -> ssl.SSLContext | None:
    if protection.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(protection.certificate, protection.key)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"{protection.certificate} is no certificate with its key: {error}") from None
    return context


def _accepted(file: Path | None) -> frozenset[bytes] | None:
    if file is None:
        return None
    try:
        if file.stat().st_mode & 0o077:
            raise UserError(f"{file} can be read by others: chmod 600 {file}")
        lines = [line.strip() for line in file.read_bytes().splitlines()]
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    accepted = frozenset(line for line in lines if line and not line.startswith(b"#"))
    if not accepted or any(b":" not in line for line in accepted):
        raise UserError(f"{file} needs lines of the form user:password")
    return accepted
