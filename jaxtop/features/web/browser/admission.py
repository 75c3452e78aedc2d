"""Who may use the server: a token that works once, then a cookie; no other host names, no other pages."""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jaxtop.cli.serving.listening import MAX_STRANGERS, REQUEST_S

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Mapping

COOKIE = "jaxtop"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class NotAdmitted(Exception):
    """The request is not admitted; the text says why."""


class Admission:
    """The secrets of one server. A token admits one browser; that browser then has a cookie.

    The cookie is limited to a path that nobody can guess: browsers send cookies to all ports of a host, so
    any other server on this machine would get one for `/`.
    """

    def __init__(self, host: str, *, is_encrypted: bool) -> None:
        self.folder = secrets.token_urlsafe(16)
        self.cookie = secrets.token_urlsafe(32)
        self.token = secrets.token_urlsafe(32)
        # With TLS the certificate proves the name.
        self._hosts = None if is_encrypted else _LOOPBACK | {host.lower()}

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Refuse other host names: a page of a stranger may let its name lead to this machine."""
        if self._hosts is not None and _split(f"//{headers.get('Host', '')}").hostname not in self._hosts:
            raise NotAdmitted("this server does not have that name")

    def spend(self, token: str) -> None:
        """Accept the token and replace it; raise `NotAdmitted` if it is another."""
        if not _is_same(token, self.token):
            raise NotAdmitted(
                "this address was used before, or is wrong: jaxtop prints the next one where it runs"
            )
        self.token = secrets.token_urlsafe(32)

    def check_cookie(self, folder: str, cookies: Mapping[str, str]) -> None:
        if not (_is_same(folder, self.folder) and _is_same(cookies.get(COOKIE, ""), self.cookie)):
            raise NotAdmitted("open the whole address that jaxtop prints where it runs")

    @staticmethod
    def check_origin(headers: Mapping[str, str]) -> None:
        """Refuse connections that scripts of other pages open; browsers let them."""
        origin = _split(headers.get("Origin", ""))
        if origin.scheme not in ("http", "https") or origin.netloc.lower() != headers.get("Host", "").lower():
            raise NotAdmitted("another page asks for this")


class Strangers:
    """The connections that have not shown a valid cookie."""

    def __init__(self, handlers: Callable[[], Any], loop: AbstractEventLoop) -> None:
        self._handlers, self._loop = handlers, loop
        self._waiting: dict[Any, None] = {}  # the oldest first

    def greet(self) -> Any:
        """Return the protocol for a new connection."""
        handler = self._handlers()
        self._waiting[handler] = None
        if len(self._waiting) > MAX_STRANGERS:
            self._cut(next(iter(self._waiting)))
        self._loop.call_later(REQUEST_S, self._cut, handler)
        return handler

    def admit(self, handler: Any) -> None:
        self._waiting.pop(handler, None)

    def _cut(self, handler: Any) -> None:
        if handler in self._waiting:
            del self._waiting[handler]
            handler.force_close()


def _is_same(given: str, expected: str) -> bool:
    """Compare in a time that says nothing about the secret."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def _split(address: str) -> Any:
    try:
        return urlsplit(address)
    except ValueError:  # such as "[::1"
        return urlsplit("")
