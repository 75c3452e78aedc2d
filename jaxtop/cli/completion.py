"""`jaxtop completion`: print the script with which a shell completes commands, options, files and runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jaxtop.cli import ls
from jaxtop.cli.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

SHELLS = ("bash", "zsh", "fish", "tcsh")
RUNS = "runs"
# The metavars whose values are files and folders.
_FILES, _FOLDERS = frozenset({"FILE", "PROGRAM", "SCRIPT"}), frozenset({"D", "DIR"})
# Shells expand the words that a completion offers: a run must not be called $(command).
_SAFE = re.compile(r"[\w.][\w.-]*", re.ASCII)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=(*SHELLS, RUNS),
        help="a shell, whose script is printed; or runs, to print what the scripts offer as TARGET",
    )


def main(arguments: argparse.Namespace) -> int:
    if arguments.what == RUNS:
        print(*sorted(_targets()), sep="\n")
    else:
        print(script(arguments.what))
    return 0


def script(shell: str) -> str:
    """Return the script of a shell, from the parsers of all commands."""
    try:
        import shtab  # an extra
    except ImportError:
        raise UserError("completion needs shtab: pip install 'jaxtop[shell]'") from None
    from jaxtop.cli import parser_of_all  # the package itself, which imports its commands only when asked

    parser, commands = parser_of_all()
    for action in (action for each in commands.values() for action in each._actions):  # noqa: SLF001 - no public list
        kind: Any = action
        if action.metavar == "TARGET":
            kind.complete = shtab.cmd("jaxtop completion runs 2>/dev/null")
        elif action.metavar in _FILES:
            kind.complete = shtab.FILE
        elif action.metavar in _FOLDERS:
            kind.complete = shtab.DIRECTORY
    return str(shtab.complete(parser, shell))


def _targets() -> Iterator[str]:
    """Yield the names and ids of the live runs."""
    for run in ls.live_runs():
        yield from (each for each in (run["name"] or "", run["id"]) if _SAFE.fullmatch(each))
