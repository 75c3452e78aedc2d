"""The command `jaxtop`: finds the command asked for, imports it alone, and turns its errors into one line."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import Any

from jaxtop import __version__
from jaxtop.cli.errors import UserError

# A command is a module of this package with `add_arguments(parser)` and `main(arguments) -> exit status`.
COMMANDS = {
    "run": "run a script with the agent in it, otherwise unchanged",
    "ls": "list the live runs of this user",
    "attach": "open the app on a live run",
    "snapshot": "print the cluster once, as JSON, CSV or OpenMetrics",
    "demo": "a real multi-process JAX training run on this machine",
    "doctor": "what works here, what does not, and why",
}


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    words = sys.argv[1:] if argv is None else argv
    name = next((word for word in words if not word.startswith("-")), None)
    if not words:  # `jaxtop` alone is `jaxtop attach`: the newest live run
        name, words = "attach", ["attach"]
    parser = _parser(name)
    arguments = parser.parse_args(words)
    try:
        return int(_command(arguments.command).main(arguments))
    except UserError as error:
        print(f"jaxtop: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has enough; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _parser(wanted: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jaxtop", description="top for a JAX cluster: a whole run, live, in one terminal"
    )
    parser.add_argument("--version", action="version", version=f"jaxtop {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        one = commands.add_parser(name, help=summary, description=summary)
        if name == wanted:  # only this command's module is imported: --help stays fast
            _command(name).add_arguments(one)
    return parser


def _command(name: str) -> Any:
    return import_module(f"jaxtop.cli.{name}")
