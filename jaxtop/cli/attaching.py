"""What commands that look at a cluster share: their arguments, and the way from these to a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop import discovery, keys
from jaxtop.cli.errors import UserError
from jaxtop.sources import LiveSource

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that say what to look at."""
    parser.add_argument(
        "target", nargs="*", metavar="TARGET", help="run name, run id, host, host:port or run file"
    )
    parser.add_argument("--hostfile", metavar="FILE", help="a file with a host or host:port a line")
    parser.add_argument(
        "--owner",
        metavar="KEY",
        help="public key of the run's owner, if that is not you (jaxtop doctor shows it)",
    )


def open_source(arguments: argparse.Namespace) -> LiveSource:
    """The live source of what the arguments name."""
    try:
        seeds = discovery.seeds(arguments.target, arguments.hostfile)
        owner = arguments.owner
        if owner is not None and not keys.Z85.fullmatch(owner):
            raise UserError("--owner takes a public key: 40 characters, as `jaxtop doctor` shows the owner")
        return LiveSource(seeds, keys.load(), owner.encode() if owner else None)
    except (discovery.NoTarget, keys.NoKey) as error:
        raise UserError(str(error)) from None
