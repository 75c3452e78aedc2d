"""The server of `--web`: it admits browsers, serves the page, and starts the app for each tab."""

from __future__ import annotations

import asyncio
import html
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import textual_serve
from aiohttp import web

from jaxtop.base import debuglog
from jaxtop.cli.errors import UserError
from jaxtop.cli.serving import listening
from jaxtop.cli.text.words import note
from jaxtop.features.web.browser.admission import COOKIE, Admission, NotAdmitted, Strangers
from jaxtop.features.web.browser.tab import CLEARED, Tab

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

# Each tab is a process with a rewind buffer of its own.
MAX_TABS = 8
# The longest message of a browser, such as a pasted text, in bytes.
MAX_MESSAGE_BYTES = 1 << 16
# A browser that does not answer within this time has gone, in seconds.
HEARTBEAT_S = 15.0
# How long a browser may take to close a connection, and all tabs to end, in seconds.
CLOSE_S, SHUTDOWN_S = 2.0, 10.0
_OWN, _TEXTUAL = Path(__file__).parent, Path(textual_serve.__file__).parent
_FILES = {
    "": _OWN / "page.html",
    "page.js": _OWN / "page.js",
    **{
        name: _TEXTUAL / name
        for name in (
            "static/css/xterm.css",
            "static/js/textual.js",
            "static/fonts/RobotoMono-VariableFont_wght.ttf",
            "static/fonts/RobotoMono-Italic-VariableFont_wght.ttf",
        )
    },
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "font-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "jaxtop",
    "X-Content-Type-Options": "nosniff",
}


class BrowserServer:
    """Serves one command to the browsers of its user."""

    def __init__(self, words: Sequence[str], host: str, port: int, protection: listening.Protection) -> None:
        missing = "" if protection.certificate is not None else "--tls-cert and --tls-key"
        family, place = listening.resolved(host, port, missing)
        self._context: ssl.SSLContext | None = listening.tls_context(protection)
        self._words = words
        self._tabs: set[Any] = set()  # their websockets
        self._listener = socket.socket(family)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind(place)
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            raise UserError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104 - only compared
        self._url = listening.url(shown, self._listener.getsockname()[1], self._context)
        self._admission = Admission(host, is_encrypted=self._context is not None)

    @property
    def url(self) -> str:
        """The address that admits the next browser."""
        return f"{self._url}/?token={self._admission.token}"

    async def serve(self) -> None:
        """Serve until SIGINT or SIGTERM, then end all tabs."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        runner = web.ServerRunner(web.Server(self._answer, access_log=None), shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        self._strangers = Strangers(runner.server, loop)
        server = await loop.create_server(
            self._strangers.greet,
            sock=self._listener,
            ssl=self._context,
            ssl_handshake_timeout=None if self._context is None else listening.REQUEST_S,
        )
        try:
            note(f"open {self.url}")
            await ended.wait()
        finally:
            server.close()
            await asyncio.gather(*(each.close() for each in self._tabs), return_exceptions=True)
            await runner.cleanup()

    async def _answer(self, request: Any) -> Any:
        """Check a request, then answer it."""
        try:
            self._admission.check_host(request.headers)
            if request.path == "/":
                response = self._enter(request)
            else:
                folder, _, name = request.path[1:].partition("/")
                self._admission.check_cookie(folder, request.cookies)
                self._strangers.admit(request.protocol)
                response = await self._tab(request) if name == "ws" else self._file(name)
        except NotAdmitted as error:
            debuglog.info("web", f"a request of {request.remote} was refused", str(error))
            response = web.Response(text=f"jaxtop: {error}\n", status=403)
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    def _enter(self, request: Any) -> Any:
        """Exchange the token for a cookie, and leave the address that contains the token."""
        if request.method != "GET":  # what previews an address must not use it up
            raise NotAdmitted("open this address in a browser")
        self._admission.spend(request.query.get("token", ""))
        folder = f"/{self._admission.folder}/"
        response = web.Response(status=303, headers={"Location": folder})
        # Not "Strict": browsers do not send such a cookie after a click on a link in another page.
        response.set_cookie(
            COOKIE,
            self._admission.cookie,
            path=folder,
            httponly=True,
            samesite="Lax",
            secure=self._context is not None,
        )
        note(f"opened; for another browser: {self.url}")
        return response

    def _file(self, name: str) -> Any:
        if name not in _FILES:
            return web.Response(text="there is no such page\n", status=404)
        if name:
            return web.FileResponse(_FILES[name])
        title = html.escape(" ".join(("jaxtop", *self._words)))
        return web.Response(text=_FILES[name].read_text().replace("{title}", title), content_type="text/html")

    async def _tab(self, request: Any) -> Any:
        self._admission.check_origin(request.headers)
        websocket = web.WebSocketResponse(
            timeout=CLOSE_S, heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE_BYTES
        )
        if not websocket.can_prepare(request):
            return web.Response(text="a websocket is expected here\n", status=400)
        is_free = len(self._tabs) < MAX_TABS
        if is_free:
            self._tabs.add(websocket)
        try:
            await websocket.prepare(request)
            if is_free:
                query = request.query
                await Tab(self._words, websocket).run(query.get("width"), query.get("height"))
            else:
                words = f"no more than {MAX_TABS} tabs at a time: close another one"
                await websocket.send_bytes((CLEARED + words).encode())
            with suppress(ConnectionError):
                await websocket.close()
        finally:
            self._tabs.discard(websocket)
        return websocket
