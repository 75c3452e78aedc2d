"""`jaxtop attach`: show a live run in the app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtop.cli import ls, settings, targets, terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.source_thread import SourceThread
from jaxtop.clock import steady
from jaxtop.devbench import saved

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from jaxtop.sources import LiveSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    parser.add_argument(
        "--rewind", metavar="SIZE", help="size of the rewind buffer (default: JAXTOP_REWIND, or 256M)"
    )


def main(arguments: argparse.Namespace) -> int:
    if not (arguments.target or arguments.hostfile):
        runs = ls.live_runs()
        if len(runs) > 1:
            chosen = _pick(runs)
            if chosen is None:
                return 0
            arguments.target = [chosen]
    rewind = arguments.rewind
    source = targets.open_source(arguments)  # opened here, so that a wrong target is an error
    watch(lambda: source, rewind)
    return 0


def _pick(runs: list[dict[str, Any]]) -> str | None:
    """Return the id of the run that the user picks; None if the user picks none."""
    terminal.need("`jaxtop ls` lists the live runs, `jaxtop snapshot NAME` prints one")
    from jaxtop.tui.picker import Picker  # heavy: errors above must be fast

    titles, *rows = ls.cells(runs)
    number = terminal.show(Picker(titles, rows))
    return None if number is None else str(runs[number]["id"])


def watch(open_source: Callable[[], LiveSource | None], rewind: str | None = None) -> None:
    """Show the app until the user leaves it."""
    terminal.need("for text use `jaxtop snapshot`")
    from jaxtop.cli.app_recorder import AppRecorder  # heavy: errors above must be fast
    from jaxtop.cli.rewind import RewindBuffer, size_of
    from jaxtop.tui.app import JaxtopApp

    loaded = settings.load()
    size = size_of(rewind, loaded.get("view.rewind"))
    terminal.collect_rarely()
    buffer, recorder = RewindBuffer(size, loaded.tuning), AppRecorder()
    follower = SourceThread(open_source, buffer, recorder)
    follower.start()
    try:
        failure = terminal.show(
            JaxtopApp(
                follower,
                steady,
                ask=follower.ask,
                history=buffer,
                recorder=recorder,
                probe=saved.last(),
                tuning=loaded.tuning,
            )
        )
    finally:
        follower.stop()
        buffer.close()
        recorder.close()
    if failure:
        raise UserError(failure)
