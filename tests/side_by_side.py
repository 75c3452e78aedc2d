"""A plugin of pytest that runs tests side by side, in forks of the process that has collected them.

Each worker of pytest-xdist imports and collects all tests itself: a minute of CPU time for nine of them.
Tests that share a fixture of their module or a mark `together` run one after the other in the same fork.

Tests that start JAX come first, and mostly wait: the cores are idle for a third of their time. Fillers use
that time. They take the other tests, the last one first, and give way to the forks that do not fill. Where
only tests that start JAX are left for a filler, the cores have time for more of them: another fork takes its
place. No fork is given a test before it can run it, so none waits behind a long one while others are idle.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest

PARENT_DIES = 1  # PR_SET_PDEATHSIG
LEAVE_WITHIN = 10.0
# A third of the share of the other forks: little enough for them, and enough to end soon beside them.
NICENESS_OF_FILLERS = 5
# The test that ended last, and how long nothing was left to begin: it shows whether the order is a good one.
LAST = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--side-by-side", type=int, default=0, metavar="N", help="run N tests at a time")
    parser.addoption(
        "--fillers",
        type=int,
        default=0,
        metavar="N",
        help="beside them, run N that start no JAX, with low priority",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in forks; leave everything else to pytest."""
    count = session.config.option.side_by_side
    if count < 1 or session.config.option.collectonly or session.testsfailed:
        return None
    todo = Todo(session, deque(units(session.items)))
    forks = [Fork(todo, number) for number in range(min(count, len(todo.units)))]
    forks += [Fork(todo, len(forks) + number, fills=True) for number in range(session.config.option.fillers)]
    try:
        while forks:
            for connection in wait([fork.connection for fork in forks]):
                fork = next(fork for fork in forks if fork.connection is connection)
                if fork.answer():
                    continue
                forks.remove(fork)
                if todo.units:  # it has died while it ran a test, or nothing is left that it may fill with
                    forks.append(Fork(todo, fork.number, fork.fills and bool(fork.given)))
            if session.shouldfail or session.shouldstop:
                raise session.Failed(session.shouldfail or session.shouldstop)
    finally:
        for fork in forks:  # it was interrupted
            os.kill(fork.pid, signal.SIGINT)
        for fork in forks:
            fork.end()
    session.config.stash[LAST] = todo.last
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if last := config.stash.get(LAST, ""):
        terminalreporter.write_line(last)


def units(items: list[pytest.Item]) -> list[list[int]]:
    """Return the indexes of tests that run together, in the order of the first of each."""
    found: dict[object, list[int]] = {}
    for index, item in enumerate(items):
        mark = item.get_closest_marker("together")
        fixtures = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
        key: object = index
        if mark or any(each.scope == "module" for defined in fixtures for each in defined):
            key = item.path, *(mark.args if mark else ())
        found.setdefault(key, []).append(index)
    return list(found.values())


@dataclass
class Todo:
    """What no fork has been given yet."""

    session: pytest.Session
    units: deque[list[int]]
    last: str = ""
    _taken_at: float = field(default_factory=time.monotonic)

    def next(self, *, is_filler: bool) -> list[int]:
        """Take the tests that a fork is to run next; none if there are none for it."""
        if not self.units:
            return []
        if is_filler and self.session.items[self.units[-1][0]].get_closest_marker("jax"):
            return []
        self._taken_at = time.monotonic()
        return self.units.pop() if is_filler else self.units.popleft()

    def done(self, index: int) -> None:
        """Note a test that has ended."""
        seconds = time.monotonic() - self._taken_at
        self.last = f"{self.session.items[index].nodeid} ended last, {seconds:.0f} s after the last one began"

    def failed(self, index: int, text: str) -> None:
        """Report a test whose fork has died."""
        item = self.session.items[index]
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        item.config.hook.pytest_runtest_logreport(report=report)


@dataclass
class Fork:
    """The side of the process that has collected the tests."""

    todo: Todo
    number: int
    fills: bool = False
    pid: int = 0
    given: list[int] = field(default_factory=list)  # tests without a result
    connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        self.connection, theirs = Pipe()
        self.todo.session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        parent = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                ctypes.CDLL(None).prctl(PARENT_DIES, signal.SIGKILL)
                if os.getppid() == parent:
                    os.nice(NICENESS_OF_FILLERS * self.fills)
                    Work(self.todo.session, theirs).run(self.number)
                    status = 0
            finally:
                self.todo.session._setupstate.teardown_exact(None)
                os._exit(status)
        theirs.close()

    def answer(self) -> bool:
        """Take what the fork sends; return False once it has ended."""
        hook = self.todo.session.config.hook
        try:
            what, value = self.connection.recv()
        except (EOFError, OSError):
            self._ended()
            return False
        if what == "report":
            report = hook.pytest_report_from_serializable(config=self.todo.session.config, data=value)
            hook.pytest_runtest_logreport(report=report)
        elif what == "done":
            self.given.remove(value)
            self.todo.done(value)
        else:
            unit = self.todo.next(is_filler=self.fills)
            self.given += unit
            self.connection.send(unit)
        return True

    def _ended(self) -> None:
        _, status = os.waitpid(self.pid, 0)
        if self.given:
            now, *rest = self.given
            self.todo.failed(now, f"the process that ran it has ended: {os.waitstatus_to_exitcode(status)}")
            if rest:
                self.todo.units.appendleft(rest)

    def end(self) -> None:
        """Wait until it has left its fixtures; kill it if that takes long."""
        until = time.monotonic() + LEAVE_WITHIN
        while not os.waitpid(self.pid, os.WNOHANG)[0]:
            time.sleep(0.05)
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)


class Work:
    """The side of a fork."""

    def __init__(self, session: pytest.Session, connection: Connection) -> None:
        self.session, self.connection = session, connection

    def run(self, number: int) -> None:
        """Run tests until no more are left."""
        self._separate(self.session.config, number)
        while unit := self._next():
            items = [self.session.items[index] for index in unit]
            # Tests of a unit share fixtures, those of different units none.
            for index, item, following in zip(unit, items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                self.connection.send(("done", index))

    def _next(self) -> list[int]:
        self.connection.send(("next", None))
        unit: list[int] = self.connection.recv()
        return unit

    def _separate(self, config: Any, number: int) -> None:
        """Share neither output, nor folders, nor random numbers with the other forks."""
        plugins = config.pluginmanager
        plugins.getplugin("terminalreporter")._tw._file = open(os.devnull, "w")  # noqa: SIM115
        capturing = plugins.getplugin("capturemanager")
        capturing.stop_global_capturing()
        capturing.start_global_capturing()
        capturing.suspend_global_capture()
        folder = config._tmp_path_factory.getbasetemp() / f"fork{number}"
        folder.mkdir(mode=0o700, exist_ok=True)
        config._tmp_path_factory._basetemp = folder
        random.seed()
        plugins.register(self)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        config = self.session.config
        data = config.hook.pytest_report_to_serializable(config=config, report=report)
        self.connection.send(("report", data))
