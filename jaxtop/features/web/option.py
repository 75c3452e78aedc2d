"""`--web` of `jaxtop attach` and `jaxtop replay`: the same app in a browser."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jaxtop.cli import terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.serving.listening import Protection, add_tls_arguments, address

if TYPE_CHECKING:
    import argparse

NAME, PORT = "--web", 8410


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        NAME, action="store_true", help="serve the app to your browser; prints the address to open"
    )
    parser.add_argument(
        "--listen",
        metavar="ADDRESS",
        help=f"address on which --web serves (default: 127.0.0.1:{PORT})",
    )
    add_tls_arguments(parser)


def is_asked(arguments: argparse.Namespace) -> bool:
    """Return whether this process is to serve browsers; one that a tab has started shows the app."""
    if arguments.web:
        return not terminal.is_in_browser()
    for name in ("listen", "tls_cert", "tls_key"):
        if getattr(arguments, name) is not None:
            raise UserError(f"--{name.replace('_', '-')} needs --web")
    return False


def serve(arguments: argparse.Namespace) -> int:
    """Serve this command until it is ended."""
    try:
        from jaxtop.features.web.browser.server import BrowserServer  # an extra
    except ImportError as error:
        if error.name not in ("aiohttp", "textual_serve"):
            raise
        raise UserError("--web needs textual-serve: pip install 'jaxtop[web]'") from None
    host, port = address(arguments.listen or "", PORT)
    server = BrowserServer(arguments.words, host, port, Protection(arguments.tls_cert, arguments.tls_key))
    asyncio.run(server.serve())
    return 0
