"""`jaxtop inject`: start the agent in JAX processes that run already."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtop import __version__
from jaxtop.cli import run
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.words import legible, note, number
from jaxtop.features.inject import remote, target, tracer
from jaxtop.features.inject.request import InjectionRequest
from jaxtop.features.inject.target import InjectionRefused
from jaxtop.store import runfiles

if TYPE_CHECKING:
    import argparse

    from jaxtop.features.inject.target import Target

# What each way does to the process, in the order in which they are tried.
DOES = {
    "python": "Python runs one line between two lines of the script",
    "ptrace": "one of its threads is stopped for some milliseconds, and starts another one",
}
FAILED = 1
# From the answer of the process to its first run file.
SHOWN_WITHIN = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pid", nargs="+", type=int, metavar="PID", help="JAX processes on this machine")
    parser.add_argument("--yes", action="store_true", help="do not ask before")
    parser.add_argument(
        "--way",
        choices=tuple(DOES),
        help="python: sys.remote_exec of Python 3.14; ptrace (default: python, ptrace where that fails)",
    )
    parser.add_argument(
        "--timeout",
        type=number("a number of seconds from 1 to 600", 1, 600),
        default=30.0,
        metavar="S",
        help="seconds to wait until a process runs the agent (default: 30)",
    )
    run.add_settings(parser)


def main(arguments: argparse.Namespace) -> int:
    for warning in run.take_settings(arguments):
        _failed(warning)
    if arguments.record:  # the working directory of the process may be another
        arguments.record = str(Path(arguments.record).expanduser().absolute())
    try:
        targets = [target.inspect_process(pid) for pid in dict.fromkeys(arguments.pid)]
        ways = [_ways(each, arguments.way) for each in targets]
    except InjectionRefused as error:
        raise UserError(str(error)) from None
    for each, names in zip(targets, ways, strict=True):
        print(legible(each.words))
        print(f"  {'; if that fails, '.join(DOES[name] for name in names)}.")
        print(f"  It starts the agent of jaxtop {__version__}, as agent.start() in the script would.")
    if not arguments.yes and not _agreed():
        return FAILED
    settings = run.given(arguments)
    pairs = zip(targets, ways, strict=True)
    return max([_inject(each, names, settings, arguments.timeout) for each, names in pairs])


def _ways(process: Target, wanted: str | None) -> list[str]:
    """Return the ways into this process, in the order in which they are tried."""
    why_not = {"python": remote.why_not(process), "ptrace": tracer.why_not()}
    ways = [name for name in DOES if why_not[name] is None and wanted in (None, name)]
    if not ways:
        whys = "; ".join(why for name, why in why_not.items() if why and wanted in (None, name))
        raise InjectionRefused(f"there is no way into pid {process.pid}: {whys}")
    return ways


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise UserError("nothing was done: nobody can be asked here; --yes does it without a question")
    try:
        return input("Start it? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def _inject(process: Target, ways: list[str], settings: dict[str, object], timeout: float) -> int:
    """Start the agent in one process, and report what came of it; return the exit status."""
    pid = process.pid
    if not process.is_same:
        return _failed(f"pid {pid} has ended")
    with InjectionRequest(process, settings) as request:
        if not _begun(ways, process, request):
            return FAILED
        if not request.until_taken(timeout) and request.withdraw():
            why = "a thread of it holds the GIL" if process.is_same else "it has ended"
            return _failed(f"pid {pid} ran no Python within {timeout:g} s: {why}. Nothing was started")
        answer = request.answer(timeout + request.import_takes)
    if answer is None:
        why = "it is blocked or stopped" if process.is_same else "it has ended"
        return _failed(f"pid {pid} began to start the agent, and has not said more: {why}")
    if answer.get("state") != "started":
        return _failed(_why_not(pid, answer))
    return _shown(process, answer)


def _begun(ways: list[str], process: Target, request: InjectionRequest) -> bool:
    """Try the ways in turn, and print why one failed; return whether the process has the request."""
    for name, following in zip(ways, [*ways[1:], None], strict=True):
        try:
            held = {"python": remote.start, "ptrace": tracer.start}[name](process, request)
        except InjectionRefused as error:
            if request.is_taken:
                return True
            _failed(f"{error}; trying {following}" if following else str(error))
        else:
            if held is not None:
                print(f"  a thread of it was held for {held * 1000:.1f} ms")
            return True
    return False


def _why_not(pid: int, answer: dict[str, Any]) -> str:
    """Return why the process started no agent, and what to do."""
    python = answer.get("python") or "its Python"
    install = f"{python} -m pip install 'jaxtop=={__version__}', then inject again"
    whys = {
        "no jax": "it has not imported jax, so there is nothing to show yet",
        "importing": "it is still importing jax: try again later",
        "running": "it has an agent already: jaxtop ls",
        "missing": f"jaxtop is not installed where it could import it: {install}",
        "version": f"it would import jaxtop {answer.get('version')}, and this is {__version__}: {install}",
        "off": "JAXTOP=off is set in its environment",
    }
    why = whys.get(answer.get("state", "")) or answer.get("why")
    return f"pid {pid} is as before: {why}"


def _shown(process: Target, answer: dict[str, Any]) -> int:
    """Wait until viewers of this user find the process; return the exit status."""
    pid = process.pid
    if os.geteuid() != process.uid:
        print(f"pid {pid} loads the agent. Its user sees it in a moment: jaxtop ls")
        return 0
    end = time.monotonic() + SHOWN_WITHIN
    while time.monotonic() < end and process.is_same:
        for each in runfiles.find():
            if each.hello.pid == pid and not each.is_stale:
                print(f"pid {pid} has started the agent: jaxtop attach {each.hello.run or each.hello.agent}")
                return 0
        for other in runfiles.unshown():
            if other.pid == pid:
                return _failed(f"pid {pid} could not load the agent: {other.why}")
        time.sleep(0.1)
    if not process.is_same:
        return _failed(f"pid {pid} has ended")
    home = answer.get("home") or "not set"
    why = "still loads it" if home == os.environ.get("HOME") else f"has another HOME, {home}"
    return _failed(
        f"pid {pid} has started the agent, but is not in `jaxtop ls` after {SHOWN_WITHIN:g} s: it {why}"
    )


def _failed(text: str) -> int:
    note(text)
    return FAILED
