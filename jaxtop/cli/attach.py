"""`jaxtop attach`: the app on a live run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jaxtop.cli import attaching
from jaxtop.cli.errors import UserError
from jaxtop.cli.following import Follower

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from jaxtop.sources import LiveSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    attaching.add_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    source = attaching.open_source(arguments)  # now, so that a wrong target is an error and not a screen
    watch(lambda: source)
    return 0


def has_terminal() -> bool:
    """Whether there is a screen to draw on, and a keyboard."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def watch(open_source: Callable[[], LiveSource | None]) -> None:
    """Show the app until the person leaves it."""
    if not has_terminal():
        raise UserError("the app needs a terminal; for text use `jaxtop snapshot`")
    from jaxtop.tui.app import JaxtopApp  # heavy; errors above should come fast

    follower = Follower(open_source)
    follower.start()
    try:
        failure = JaxtopApp(follower, ask=follower.ask).run()
    finally:
        follower.stop()
    if failure:
        raise UserError(failure)
