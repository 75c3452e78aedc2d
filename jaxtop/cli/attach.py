"""`jaxtop attach`: show a live run in the app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base.feature import options_of
from jaxtop.cli import ls, targets, terminal, ways
from jaxtop.cli.text.words import note, number

if TYPE_CHECKING:
    import argparse

_SECONDS = number("between 0 and 3600 seconds", 0, 3600)
ELSEWHERE = "the runs of the other side are not listed here: leave, and name another TARGET"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    parser.add_argument(
        "--rewind", metavar="SIZE", help="size of the rewind buffer (default: JAXTOP_REWIND, or 256M)"
    )
    parser.add_argument(
        "--wait", type=_SECONDS, metavar="S", help="seconds to wait for a run of that name to start"
    )


def main(arguments: argparse.Namespace) -> int:
    is_here = ways.find(arguments.via, arguments.target) is None
    for option in options_of("attach"):
        if option.is_asked(arguments):
            if is_here:
                targets.open_here(arguments).close()  # a wrong target is an error here, not elsewhere
            return int(option.serve(arguments))
    is_named = arguments.target or arguments.hostfile or arguments.via
    if not is_named and not terminal.is_in_browser() and len(ls.first_of_families(ls.live_runs())) > 1:
        terminal.need("`jaxtop ls` lists the live runs, `jaxtop snapshot NAME` prints one")
        from jaxtop.cli.live import app  # heavy: errors above must be fast

        chosen = app.pick()
        if chosen is None:
            return 0
        arguments.target = [chosen]
    notes: list[str] = []

    def remember(line: str) -> None:
        note(line)
        notes.append(line)  # the app covers what was printed

    source = targets.open_awaited(
        arguments, arguments.wait, remember
    )  # opened here, so that a wrong target is an error
    terminal.need("for text use `jaxtop snapshot`")
    from jaxtop.cli.live import app  # as above

    app.show(lambda: source, arguments.rewind, arguments.owner, "" if is_here else ELSEWHERE, notes)
    return 0
