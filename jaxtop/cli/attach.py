"""`jaxtop attach`: the app on a live run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jaxtop import probes
from jaxtop.cli import attaching, collecting
from jaxtop.cli.errors import UserError
from jaxtop.cli.following import Follower
from jaxtop.clock import steady

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
    from jaxtop.cli.keeping import Kept, OnRequest  # heavy; errors above should come fast
    from jaxtop.tui.app import JaxtopApp

    collecting.rarely()
    kept, recorder = Kept(), OnRequest()
    follower = Follower(open_source, kept, recorder)
    follower.start()
    try:
        failure = JaxtopApp(
            follower, steady, ask=follower.ask, reel=kept, recorder=recorder, probe=probes.last()
        ).run()
    finally:
        follower.stop()
        kept.close()
        recorder.close()
    if failure:
        raise UserError(failure)
