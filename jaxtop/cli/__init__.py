"""The program `jaxtop`: import only the command asked for, run it, and report its errors in one line.

What is where, in the order in which to read it:

- targets.py: the arguments that select a cluster, and its source
- ways.py: shorthands of targets, as commands
- errors.py: errors that the user can fix
- settings.py: the settings of the user
- run.py: `jaxtop run`
- ls.py: `jaxtop ls`
- attach.py: `jaxtop attach`
- snapshot.py: `jaxtop snapshot`
- check.py: `jaxtop check`
- record.py: `jaxtop record`
- replay.py: `jaxtop replay`
- demo.py: `jaxtop demo`
- config.py: `jaxtop config`
- completion.py: `jaxtop completion`
- doctor.py: `jaxtop doctor`
- terminal.py: checks the terminal, and runs the app on it
- preferences.py: how the user wants the app to look, from the settings
- tty_driver.py: Textual's driver, for terminals that go away
- hangup.py: ends a command whose terminal is gone
- live/: the app on a live run: the thread of the source, the rewind buffer, recording
- reading/: reads a source once, for commands that print and end
- serving/: pages over HTTP
- machine/: processes, drivers and costs of agents on this machine
- text/: words, formats, files and the manual
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from importlib.util import find_spec
from typing import TYPE_CHECKING, NoReturn

from jaxtop import __version__
from jaxtop.base import debuglog
from jaxtop.base.feature import Command, features, load, options_of
from jaxtop.cli.errors import Terminated, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# The commands of the core, before and after those of features. A command is a module with
# `add_arguments(parser)` and `main(arguments) -> exit status`.
_RUNS = {
    "run": Command("run an unchanged script with the agent in it", "jaxtop.cli.run"),
    "ls": Command("list the live runs of this user", "jaxtop.cli.ls"),
    "attach": Command("open the app on a live run", "jaxtop.cli.attach"),
    "snapshot": Command("print the cluster once, as JSON, CSV or OpenMetrics", "jaxtop.cli.snapshot"),
    "check": Command(
        "say what is wrong with a run; the exit status says how bad it is", "jaxtop.cli.check", failed=3
    ),
    "record": Command("record a live session to a file", "jaxtop.cli.record"),
    "replay": Command("open the app on recordings, or print one moment", "jaxtop.cli.replay"),
}
_MACHINE = {
    "demo": Command("start a real multi-process JAX run on this machine", "jaxtop.cli.demo"),
    "config": Command("print the settings and where each comes from", "jaxtop.cli.config"),
    "completion": Command(
        "print a script that completes commands, options and runs in your shell", "jaxtop.cli.completion"
    ),
    "doctor": Command("check what works on this machine, and why not", "jaxtop.cli.doctor"),
}
COMMANDS = {
    **_RUNS,
    **{name: command for each in features() for name, command in each.commands.items()},
    **_MACHINE,
}

_ONLY_AGENT = (
    "jaxtop-agent has the agent and `jaxtop run` alone; `pip install jaxtop`, here or in an environment of "
    "its own, has all commands"
)
_SUMMARY = "top for a JAX cluster: a whole run, live, in one terminal"


def main(argv: list[str] | None = None, *, begin: Callable[[], object] = lambda: None) -> int:
    """Run a command and return its exit status; `begin` is called once the command is imported."""
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names may have any characters, and the terminal's encoding may lack them.
        sys.stdout.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if argv is None else argv
    command = COMMANDS.get(_name_in(words) or "")
    failed = None if command is None else command.failed
    try:
        try:
            debuglog.info("command", f"jaxtop {__version__} {words}")
            return _run(words, begin)
        except ImportError as error:
            if find_spec("jaxtop.tui") is not None:
                raise
            raise UserError(_ONLY_AGENT) from error
        finally:
            print(end="", flush=True)  # while an error can still be reported
    except UserError as error:
        debuglog.warning("command", "ended with an error", error=error)
        print(f"jaxtop: {error}", file=sys.stderr)
        return failed or error.status
    except KeyboardInterrupt as ended:
        return 143 if isinstance(ended, Terminated) else 130
    except BrokenPipeError:  # the reader of our output has closed it
        _drop_output()
        return 141
    except OSError as error:
        debuglog.warning("command", "ended with an error", error=error)
        where = f"{error.filename}: " if error.filename else ""
        print(f"jaxtop: {where}{error.strerror or error}", file=sys.stderr)
        _drop_output()
        return failed or 1
    except Exception:
        if failed is None:
            raise
        traceback.print_exc()
        return failed


def _run(words: list[str], begin: Callable[[], object]) -> int:
    name = _name_in(words)
    if not words:  # `jaxtop` alone is `jaxtop attach`
        name, words = "attach", ["attach"]
    elif name == "help":  # as in git and docker: `jaxtop help run` is `jaxtop run --help`
        asked = words[words.index(name) + 1 :][:1]
        words = ["--help"] if asked == [name] else [*asked, "--help"]
        name = _name_in(words)
    parser = _parser(name)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        is_own = arguments.command is None or unknown[0] in words[: words.index(arguments.command)]
        prog = parser.prog if is_own else f"{parser.prog} {arguments.command}"
        raise UserError(f"unrecognized arguments: {' '.join(unknown)}; see {prog} --help")
    if arguments.command is None:
        parser.error("no command given")
    arguments.words = words  # `--web` starts the same command once more for each tab
    command = load(COMMANDS[arguments.command].module)
    begin()
    return int(command.main(arguments))


def _name_in(words: list[str]) -> str | None:
    """Return the name of the command."""
    return next((word for word in words if not word.startswith("-")), None)


def _open_closed_streams() -> None:
    """Connect to nothing what the shell has closed (`>&-`): a file or socket would get its number."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(null, True)
            setattr(sys, name, os.fdopen(null, "r" if name == "stdin" else "w"))


def _drop_output() -> None:
    """Discard the rest of the output: Python would otherwise report at exit that it cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, like all errors of jaxtop."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help")


class _Manual(argparse.Action):
    """Prints the manual page and ends."""

    def __call__(self, *_: object) -> NoReturn:
        from jaxtop.cli.text import manual  # rarely needed

        print(manual.page(parser_of_all()[1], _SUMMARY), end="")
        raise SystemExit(0)


def _parser(wanted: str | None) -> argparse.ArgumentParser:
    # Only this command's module is imported: --help stays fast.
    return _with_commands(() if wanted is None else (wanted,))[0]


def parser_of_all() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of the program and those of its commands, with all arguments."""
    return _with_commands(COMMANDS)


def _with_commands(
    wanted: Collection[str],
) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    parser = _Parser(prog="jaxtop", description=_SUMMARY)
    parser.add_argument("-V", "--version", action="version", version=f"jaxtop {__version__}")
    parser.add_argument(
        "--man", action=_Manual, nargs=0, help="print the manual page: jaxtop --man | man -l -"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    found: dict[str, argparse.ArgumentParser] = {}
    for name, command in COMMANDS.items():
        found[name] = commands.add_parser(name, help=command.summary, description=command.summary)
        if name in wanted:
            load(command.module).add_arguments(found[name])
            for option in options_of(name):
                option.add_arguments(found[name])
    return parser, found
