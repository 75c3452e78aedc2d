"""Apps that signals end or stop: the terminal is as it was before, whenever that happens."""

from __future__ import annotations

import os
import random
import signal
import termios
import threading
import time
from contextlib import contextmanager, suppress

import psutil
import pytest

from tests.cases import thorough
from tests.real.hangups import RECORDING, two_runs_and_a_recording
from tests.real.terminals import in_a_terminal, read_until
from tests.support import SOAK

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600 if SOAK else 400)]

# What opens and leaves the app's own screen.
OPENS, LEAVES = "\x1b[?1049h", "\x1b[?1049l"
APPS = {
    "replay": (["replay", RECORDING], "REPLAY"),
    "attach": (["attach", "r0"], "NO HOST"),
    "picker": ([], "evaluate"),
}
MOMENTS = 100 if SOAK else 2
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Each signal and each app; all pairs of them in the long run.
ENDS = (
    [(name, number) for name in APPS for number in SIGNALS]
    if SOAK
    else [*(("replay", number) for number in SIGNALS), ("attach", signal.SIGHUP), ("picker", signal.SIGTERM)]
)


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    two_runs_and_a_recording()


class Shown:
    """An app on a terminal, which is compared with what it was before."""

    def __init__(self, screen: int) -> None:
        self.screen = screen
        self.before = termios.tcgetattr(screen)
        self.seen = ""

    def until(self, words: str) -> None:
        self.seen += read_until(self.screen, words)
        assert words in self.seen

    def assert_is_as_before(self) -> None:
        self.seen += read_until(self.screen, "no such words")
        assert termios.tcgetattr(self.screen) == self.before
        assert self.seen.count(OPENS) == self.seen.count(LEAVES)
        assert self.seen.rfind("\x1b[?1000h") <= self.seen.rfind("\x1b[?1000l")  # the mouse
        assert "Traceback" not in self.seen


@pytest.mark.parametrize(("name", "number"), ENDS)
def test_a_signal_ends_an_app_and_leaves_the_terminal_as_it_was(name, number):
    words, shown = APPS[name]
    with in_a_terminal(*words, TERM="xterm-256color") as (process, screen):
        app = Shown(screen)
        app.until(shown)
        assert termios.tcgetattr(screen) != app.before
        process.send_signal(number)
        app.assert_is_as_before()
        assert process.wait() == -number
        assert OPENS in app.seen


def test_so_it_is_at_any_moment():
    moments = random.Random(3)
    for _ in range(MOMENTS):
        with in_a_terminal("replay", RECORDING, TERM="xterm-256color") as (process, screen):
            app = Shown(screen)
            time.sleep(moments.uniform(0, 2))  # before it is shown, or while, or after
            process.send_signal(signal.SIGTERM)
            app.assert_is_as_before()
            assert process.wait() == -signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
def test_an_app_that_was_stopped_goes_on_and_leaves_the_terminal_as_it_was(number):
    with in_a_terminal("replay", RECORDING, TERM="xterm-256color") as (process, screen):
        app = Shown(screen)
        app.until("REPLAY")
        for _ in range(3):
            process.send_signal(number)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            if number == signal.SIGTSTP:
                assert termios.tcgetattr(screen) == app.before  # the shell uses it
            app.seen += "" if number == signal.SIGSTOP else read_until(screen, LEAVES)
            process.send_signal(signal.SIGCONT)
            app.until(OPENS)
            before, opens, drawn = app.seen.rpartition(OPENS)
            app.seen = before + opens + read_until(screen, "REPLAY", drawn)
        os.write(screen, b"q")
        app.assert_is_as_before()
        assert process.wait() == 0


@contextmanager
def continued(process):
    """Let this process go on whenever it is stopped. (The kernel stops none without a handler here.)"""
    over = threading.Event()

    def go_on() -> None:
        with suppress(psutil.NoSuchProcess):
            while not over.wait(0.05):
                if psutil.Process(process.pid).status() == psutil.STATUS_STOPPED:
                    process.send_signal(signal.SIGCONT)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_an_app_that_is_stopped_at_any_moment_ends_as_always():
    moments = random.Random(4)
    for _ in range(MOMENTS):
        with (
            in_a_terminal("replay", RECORDING, TERM="xterm-256color") as (process, screen),
            continued(process),
        ):
            app = Shown(screen)
            time.sleep(moments.uniform(0, 1.5))
            process.send_signal(signal.SIGTSTP)
            app.until("REPLAY")
            os.write(screen, b"q")
            app.assert_is_as_before()
            assert process.wait() == 0


@pytest.mark.parametrize("elsewhere", ["2>&-", thorough("2>/dev/null"), "2>/dev/full"])
def test_an_app_is_shown_though_errors_go_elsewhere(elsewhere):
    with in_a_terminal(
        "replay", RECORDING, within=["sh", "-c", f'exec "$@" {elsewhere}', "sh"], TERM="xterm-256color"
    ) as (process, screen):
        app = Shown(screen)
        app.until("REPLAY")
        os.write(screen, b"q")
        app.assert_is_as_before()
        assert process.wait() == 0
