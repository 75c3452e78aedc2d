"""Commands on a terminal that goes away, and which of their processes are left."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from jaxtop.base import keys
from jaxtop.store import runfiles
from tests import patience
from tests.made.agents import hello_here
from tests.played import recordings as recorded
from tests.support import JAXTOP, die_with_tests, environment

if TYPE_CHECKING:
    from collections.abc import Iterator


RECORDING = "run.mcap"


def two_runs_and_a_recording() -> None:
    """Two live runs of this user, of which this very process is both, and a recording of another one."""
    recorded.a_run(Path(RECORDING))
    keys.load()
    for number, name in enumerate(("train", "evaluate")):
        at = {"telemetry": f"127.0.0.1:{number + 1}", "requests": f"127.0.0.1:{number + 3}"}
        runfiles.write(hello_here(f"a{number}", name=name, run=f"r{number}", started_ms=number, **at))


class Way(NamedTuple):
    """How a command has its terminal."""

    ignores_hangups: bool = False
    is_controlling: bool = True

    @property
    def name(self) -> str:
        return (
            f"{'ignored' if self.ignores_hangups else 'default'}-{'own' if self.is_controlling else 'other'}"
        )

    def prepare(self) -> None:
        """Take the terminal, in the child."""
        die_with_tests()
        signal.signal(signal.SIGHUP, signal.SIG_IGN if self.ignores_hangups else signal.SIG_DFL)
        if self.is_controlling:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)


WAYS = tuple(Way(ignores, controls) for ignores in (False, True) for controls in (True, False))


class Hangup:
    """A command whose terminal is closed after some seconds, or once it has written these words."""

    def __init__(self, words: list[str], way: Way, after: float = 60, until: str = "\0\0") -> None:
        ours, theirs = pty.openpty()
        try:
            self.process = subprocess.Popen(
                [*JAXTOP, *words],
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=environment(2, LINES="24", COLUMNS="80", TERM="xterm-256color"),
                start_new_session=True,
                preexec_fn=way.prepare,  # noqa: PLW1509 - no other thread of the tests has a lock
            )
            os.close(theirs)
            self.seen = _drained(ours, after, until.encode())
        finally:
            os.close(ours)

    def left(self) -> list[psutil.Process]:
        """Return what is left of the session of the command."""
        self.process.poll()
        return list(_session(self.process.pid))

    def stayed(self, every: float = 0.05) -> list[psutil.Process]:
        """Return what does not end."""
        end = patience.deadline()
        while (left := self.left()) and end.left() > 0:
            time.sleep(every)
        return left

    def end(self) -> None:
        """End what is left."""
        for each in self.left():
            with suppress(psutil.Error):
                each.kill()
        self.process.wait()


def _drained(screen: int, seconds: float, until: bytes) -> bytes:
    """Return what is written to a terminal in these seconds, or up to these words."""
    seen, end = b"", time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and until not in seen:
        if select.select([screen], [], [], left)[0]:
            try:
                seen += os.read(screen, 65_536)
            except OSError:  # the command has ended
                break
    return seen


def _session(leader: int) -> Iterator[psutil.Process]:
    for pid in psutil.pids():
        with suppress(ProcessLookupError, psutil.Error):
            if os.getsid(pid) == leader and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                yield psutil.Process(pid)


def stayed(command: list[str], ways_and_moments: list[tuple[Way, float]]) -> list[str]:
    """Return what did not end after these hangups."""
    found = []
    for way, after in ways_and_moments:
        hangup = Hangup(command, way, after)
        try:
            left = hangup.stayed()
            if left:
                found.append(f"{way.name} after {after:.3f} s: {len(left)} processes")
        finally:
            hangup.end()
    return found
