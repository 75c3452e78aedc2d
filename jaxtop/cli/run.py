"""`jaxtop run`: run an unmodified script in the real interpreter, with the agent in that process only."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base import keys, private, room
from jaxtop.base.names import reason
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.words import note, number

if TYPE_CHECKING:
    from collections.abc import Iterator

USAGE = (
    "jaxtop run [--name N] [--record DIR] [--bind A] [--interval S] (SCRIPT | -m MODULE | -c CODE) [ARGS ...]"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = USAGE
    add_settings(parser)
    everything = argparse.REMAINDER
    parser.add_argument("-m", dest="module", nargs=everything, metavar="MODULE", help="run a module")
    parser.add_argument("-c", dest="code", nargs=everything, metavar="CODE", help="run this code")
    parser.add_argument(
        "script", nargs=everything, metavar="SCRIPT", help="script to run, with its own arguments"
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the settings of the agent."""
    parser.add_argument("--name", help="name of the run (default: name of the script)")
    parser.add_argument(
        "--record", metavar="DIR", help="write a black box to this folder, for `jaxtop replay`"
    )
    parser.add_argument("--bind", metavar="ADDRESS", help="address to serve on (default: detected)")
    parser.add_argument(
        "--interval",
        type=number("a number of seconds from 0.1 to 60", 0.1, 60),
        metavar="S",
        help="seconds between two pulses, 0.1 to 60 (default: 1)",
    )


def main(arguments: argparse.Namespace) -> int:
    program = _program(arguments)
    if sys.flags.ignore_environment:
        # The environment starts the agent. Python would ignore it and leave its variables to the script.
        raise UserError("with -E or -I Python reads no environment; run it without, or call agent.start()")
    for warning in (*take_settings(arguments), *_warnings(arguments)):
        note(f"{warning}; the script runs all the same")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(  # noqa: S606 - the same process, so that signals and exit status are the script's
        sys.executable,
        [sys.executable, *interpreter_flags(sys.orig_argv), *program],
        boot_environment(os.getpid(), given(arguments)),
    )


def take_settings(arguments: argparse.Namespace) -> Iterator[str]:
    """Add what the file sets and the command line does not; yield why that is impossible."""
    try:
        if not (keys.config_dir() / "config.toml").exists():
            return
        from jaxtop.cli import settings  # heavy: it knows every rule

        loaded = settings.load()
    except (UserError, keys.NoKey, OSError) as error:
        yield str(error)
        return
    except ImportError:
        yield "jaxtop-agent does not read config.toml, jaxtop does"
        return
    for name in ("bind", "interval", "record"):
        if getattr(arguments, name) is None:
            setattr(arguments, name, loaded.get(f"run.{name}"))


def given(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the settings of the agent, as `agent.start()` takes them; None where nothing is set."""
    return {name: getattr(arguments, name) for name in ("name", "bind", "interval", "record")}


def _warnings(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield what the agent will not be able to do on this machine: no reason to refuse the script."""
    from jaxtop_agent.core import settings  # the part of the agent that needs no JAX

    yield from settings.read(interval=arguments.interval).ignored
    if arguments.bind and arguments.bind != "auto":
        try:
            with socket.socket() as trial:
                trial.bind((socket.gethostbyname(arguments.bind), 0))
        except OSError as error:
            yield f"--bind {arguments.bind} cannot be served on ({error.strerror}): no viewer can connect"
    named = "--record" if arguments.record else "JAXTOP_RECORD"
    if record := arguments.record or os.environ.get("JAXTOP_RECORD"):
        missing = [each for each in ("mcap", "zstandard") if find_spec(each) is None]
        if missing:
            names = " and ".join(missing)
            yield f"{named} needs {names} (pip install 'jaxtop-agent[record]'): nothing is recorded"
            return
        asked = Path(record).expanduser()
        folder = asked.parent if asked.suffix == ".mcap" else asked
        try:
            private.make(folder)
        except OSError as error:
            yield f"{named} {record} cannot be created ({error.strerror}): nothing is recorded"
            return
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            yield f"{named} {record} is no folder that you can write to: nothing is recorded"
            return
        try:
            room.require_disk(folder)
        except OSError as error:
            yield f"{named} {record}: {reason(error)}: nothing is recorded"


def _program(arguments: argparse.Namespace) -> list[str]:
    if arguments.module:
        return ["-m", *arguments.module]
    if arguments.code:
        return ["-c", *arguments.code]
    script: list[str] = arguments.script[1:] if arguments.script[:1] == ["--"] else arguments.script
    if not script:
        raise UserError(f"nothing to run; usage: {USAGE}")
    if not Path(script[0]).exists():
        looks_like_a_path = script[0].endswith(".py") or "/" in script[0]
        hint = "" if looks_like_a_path else f"; to run a module write `jaxtop run -m {script[0]}`"
        raise UserError(f"no script {script[0]}{hint}")
    return script


def interpreter_flags(words: list[str]) -> list[str]:
    """Return the flags (-O, -X, -W ...) that this interpreter was started with."""
    flags: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-") or word in {"-m", "-c", "-"}:
            break
        flags += [word, next(rest)] if word in {"-W", "-X"} else [word]
    return flags


def boot_environment(pid: int, settings: dict[str, object]) -> dict[str, str]:
    """Return an environment that starts the agent in the interpreter with this pid, not in its children."""
    import jaxtop_agent.boot  # only its folder is needed

    set_ones = {name: value for name, value in settings.items() if value is not None}
    path = os.environ.get("PYTHONPATH")
    mark = f"{pid}:{int(path is not None)}:{path or ''}\n{json.dumps(set_ones)}"
    folder = jaxtop_agent.boot.__path__[0]
    return {
        **os.environ,
        "JAXTOP_BOOT": mark,
        "PYTHONPATH": folder if not path else f"{folder}{os.pathsep}{path}",
    }
