"""A small HTTP server for pages that are computed on request, with TLS and passwords."""

from __future__ import annotations

import base64
import hmac
import os
import socket
import stat
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import parse_qs

from jaxtop import __version__
from jaxtop.base import debuglog
from jaxtop.base.clock import steady
from jaxtop.cli.errors import UserError
from jaxtop.cli.serving.listening import MAX_STRANGERS, REQUEST_S, resolved, tls_context, url

if TYPE_CHECKING:
    from pathlib import Path

    from jaxtop.cli.serving.listening import Protection

# The most clients that are answered at a time.
MAX_CLIENTS = 16
# The seconds that a client may take to read its answer.
ANSWER_S = 60.0


class HttpRequest(NamedTuple):
    """What a client asked for: the header `Accept`, the values of its query, and whether it reads gzip."""

    accept: str = ""
    query: Mapping[str, list[str]] = {}
    reads_gzip: bool = False


class Page(NamedTuple):
    """An answer; `encoding` says how its body is compressed."""

    body: bytes
    content_type: str
    status: int = 200
    encoding: str = ""


Pages = Mapping[str, Callable[[HttpRequest], Page]]


class HttpServer:
    """Serves pages by path on threads of its own, within a `with` block."""

    def __init__(self, host: str, port: int, pages: Pages, protection: Protection) -> None:
        missing = "" if protection.is_whole else "--tls-cert, --tls-key and --auth"
        family, place = resolved(host, port, missing)
        accepted, context = _accepted(protection.passwords), tls_context(protection)
        handler = type("Handler", (_Handler,), {"pages": pages, "accepted": accepted})
        server = type("Listener", (_Listener,), {"address_family": family})
        try:
            self._server = server(place, handler)
        except OSError as error:
            raise UserError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        if context is not None:
            # Each client's thread does its own handshake: a client that sends nothing delays no other.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = url(host, self._server.server_address[1], context)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="jaxtop http", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    # Connections that wait to be accepted. Beyond them, a client waits a second before it tries again.
    request_queue_size = 1024

    def __init__(self, *arguments: Any) -> None:
        # Connections with the time at which they are cut off, the oldest first; 0 if that is done.
        self._strangers: dict[socket.socket, float] = {}
        self._answered: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            # Those that were cut off are counted until their threads have ended.
            is_admitted = len(self._strangers) < 2 * MAX_STRANGERS
            if is_admitted:
                waiting = [each for each, deadline in self._strangers.items() if deadline]
                for oldest in waiting[: len(waiting) - MAX_STRANGERS + 1]:
                    _cut(oldest)
                    self._strangers[oldest] = 0.0
                self._strangers[request] = steady() + REQUEST_S
        if is_admitted:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def service_actions(self) -> None:
        """Cut the clients whose time is up; called at least every half second."""
        now = steady()
        with self._lock:
            for clients in (self._strangers, self._answered):
                for request in [each for each, deadline in clients.items() if now > deadline]:
                    _cut(request)

    def close_request(self, request: Any) -> None:
        """Close a connection and free its place, whatever the reason."""
        with self._lock:  # else its number could belong to another connection when it is cut off
            self._strangers.pop(request, None)
            self._answered.pop(request, None)
            super().close_request(request)

    def may_answer(self, request: Any) -> bool:
        """Let a client whose request is complete read its answer; return False if there are too many."""
        with self._lock:
            if len(self._answered) >= MAX_CLIENTS:
                return False
            if self._strangers.pop(request, None) is not None:
                self._answered[request] = steady() + ANSWER_S
            return True

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the signature is given
        debuglog.info("http", f"a client at {client_address[0]} was dropped")


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    timeout = ANSWER_S
    server_version, sys_version = f"jaxtop/{__version__}", ""
    protocol_version = "HTTP/1.1"
    pages: Pages
    accepted: frozenset[bytes] | None

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if not self._is_admitted():
            self._send(Page(b"a user and a password are needed\n", "text/plain", 401))
        elif (write := self.pages.get(path)) is None:
            known = " ".join(sorted(self.pages))
            self._send(Page(f"there is no {path[:80]!r}; there are: {known}\n".encode(), "text/plain", 404))
        elif not self.server.may_answer(self.connection):
            self._send(Page(b"too many clients at a time: try again\n", "text/plain", 503))
        else:
            try:
                page = write(self._request(query))
            except Exception as error:  # noqa: BLE001 - the next request may work
                debuglog.warning("http", f"{path} failed", error=error)
                page = Page(f"{type(error).__name__}: {error}\n".encode(), "text/plain", 500)
            self._send(page)

    do_HEAD = do_GET  # noqa: N815 - the base class names it

    def _request(self, query: str) -> HttpRequest:
        codings = [each.replace(" ", "") for each in self.headers.get("Accept-Encoding", "").split(",")]
        reads_gzip = any(each.partition(";")[0] == "gzip" and not each.endswith(";q=0") for each in codings)
        return HttpRequest(self.headers.get("Accept", ""), parse_qs(query), reads_gzip)

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
        if page.encoding:
            self.send_header("Content-Encoding", page.encoding)
        self.send_header("Vary", "Accept, Accept-Encoding")
        self.send_header("Content-Length", str(len(page.body)))
        # One request per connection: idle clients hold no slot, and a body is never read as another request.
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature is given
        debuglog.debug("http", format % args)


def _cut(connection: socket.socket) -> None:
    with suppress(OSError):  # the client may be gone
        # Not `SSLSocket.shutdown`: the client's thread may be within TLS.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _accepted(file: Path | None) -> frozenset[bytes] | None:
    """Return the lines `user:password` of a file; a password may begin or end with spaces."""
    if file is None:
        return None
    try:
        # Opening a FIFO must not wait for its writer.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise UserError(f"{file} is not a regular file")
            if mode & 0o077:
                raise UserError(f"{file} can be read by others: chmod 600 {file}")
            lines = opened.read().splitlines()
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    accepted = frozenset(line for line in lines if line and not line.startswith(b"#"))
    if not accepted or not all(all(line.partition(b":")) for line in accepted):
        raise UserError(f"{file} needs lines of the form user:password")
    return accepted
