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
    if sys.stdin is None or sys.stdout is None or sys.stdin.isatty():
        raise UserError(
            "relay --stdio speaks with another jaxtop: run `jaxtop attach --via 'ssh THIS_HOST'` on your side"
        )

    def open_source(wanted: Open) -> Source:
        _use(wanted, arguments)
        return targets.open_here(arguments)

    FarHalf(sys.stdin.fileno(), sys.stdout.fileno(), open_source, UserError).run()
    return 0


def _use(wanted: Open, arguments: argparse.Namespace) -> None:
    """Add what the viewer wants to follow to the arguments, which it cannot change."""
    is_fixed = bool(arguments.target or arguments.hostfile)
    if is_fixed and wanted.targets and list(wanted.targets) != arguments.target:
        raise UserError("the relay there follows one fixed TARGET: leave yours out")
    if arguments.owner and wanted.owner not in (None, arguments.owner):
        raise UserError("the relay there follows one fixed --owner: leave yours out")
    if not is_fixed:
        arguments.target = list(wanted.targets)
    arguments.owner = arguments.owner or wanted.owner
