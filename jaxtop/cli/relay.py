"""`jaxtop relay`: the far half of a viewer; `--via` of other commands starts it on the other side."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jaxtop.cli import targets
from jaxtop.cli.errors import UserError
from jaxtop.sources.relay import FarHalf

if TYPE_CHECKING:
    import argparse

    from jaxtop.sources import Source
    from jaxtop.sources.relay.stream import Open


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_own_arguments(parser)
    parser.add_argument(
        "--stdio",
        action="store_true",
        required=True,
        help="speak with a viewer over standard input and output; `--via` starts this on the other side",
    )


def main(arguments: argparse.Namespace) -> int:
    if sys.stdin.isatty():
        raise UserError(
            "relay --stdio speaks with another jaxtop: run `jaxtop attach --via 'ssh THIS_HOST'` on your side"
        )

    def open_source(wanted: Open) -> Source:
        if not (arguments.target or arguments.hostfile):  # what this side's user fixed comes first
            arguments.target = list(wanted.targets)
        arguments.owner = arguments.owner or wanted.owner
        return targets.open_here(arguments)

    FarHalf(sys.stdin.fileno(), sys.stdout.fileno(), open_source, UserError).run()
    return 0
