"""Commands whose terminal goes away: nothing of them stays, whenever it happens."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap

import pytest

from jaxtop.cli import tty_driver
from tests.cases import thorough
from tests.real.hangups import RECORDING, WAYS, Hangup, stayed, two_runs_and_a_recording
from tests.support import SOAK, environment

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600 if SOAK else 400)]

COMMANDS = {
    "attach": ["attach", "r1"],
    "picker": [],
    "replay": ["replay", RECORDING],
    "snapshot": ["snapshot", "r1", "--watch", "3600"],
    "demo": ["demo", "--hosts", "2", "--devices", "1"],
}
# What shows that the app is there, or that the command waits.
STARTED = {"attach": "NO HOST", "picker": "evaluate", "replay": "REPLAY"}
MOMENTS = 200 if SOAK else 2
# Each way and each app; all pairs of them in the long run.
SHOWN = [
    pytest.param(name, way, id=f"{name}-{way.name}")
    for name in STARTED
    for way in (WAYS if SOAK or name == "replay" else WAYS[:1])
]


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    two_runs_and_a_recording()


@pytest.mark.parametrize("name", [thorough(name) if name == "picker" else name for name in COMMANDS])
def test_nothing_stays_whenever_the_terminal_goes(name):
    moments = random.Random(name)
    longest = 6.0 if name == "demo" else 3.0
    ways = moments.sample(WAYS, len(WAYS))
    hangups = [(ways[i % len(ways)], moments.uniform(0.001, longest)) for i in range(MOMENTS)]
    assert stayed(COMMANDS[name], hangups) == []


@pytest.mark.parametrize(("name", "way"), SHOWN)
def test_an_app_that_is_shown_ends_by_the_signal(name, way):
    ended = Hangup(COMMANDS[name], way, until=STARTED[name])
    try:
        assert STARTED[name].encode() in ended.seen
        assert ended.stayed() == []
        assert ended.process.wait() == -signal.SIGHUP
    finally:
        ended.end()


@pytest.mark.parametrize(
    ("first", "meanwhile", "status"),
    [
        ("pass", "time.sleep(3600)", -signal.SIGHUP),
        ("pass", "refuse()", -signal.SIGHUP),
        ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])", "refuse()", 128 + signal.SIGHUP),
    ],
    ids=["by its own means", "by default action", "at once"],
)
def test_a_terminal_is_noticed_that_went_before_it_was_watched(first, meanwhile, status):
    script = f"""
        import os, signal, time
        from jaxtop.cli import hangup, tty_driver

        def refuse():
            while True:
                try:
                    time.sleep(3600)
                except BaseException:
                    pass

        {first}
        ours, theirs = os.openpty()
        os.close(ours)
        hangup.watch([theirs])
        {meanwhile}
    """
    assert ended(script) == status


def test_files_that_are_no_terminal_end_nothing(tmp_path):
    script = f"""
        import os, time
        from jaxtop.cli import hangup, tty_driver
        reader, writer = os.pipe()
        os.close(reader)
        file = os.open({str(tmp_path / "file")!r}, os.O_CREAT)
        null = os.open(os.devnull, os.O_RDWR)
        hangup.watch([writer, file, null, 99])
        assert hangup._gone({{null}}, 0) == [] and not hangup.is_ending()
        ours, theirs = os.openpty()
        os.close(ours)
        assert hangup._gone({{null, theirs}}, None) == [theirs]
    """
    assert ended(script) == 0


def test_what_cannot_be_written_is_dropped():
    ours, theirs = os.openpty()
    with open(theirs, "w") as screen:
        os.close(ours)
        with pytest.raises(OSError, match="Input/output"):
            print("x", file=screen, flush=True)
        lenient = tty_driver.LenientFile(screen)
        assert lenient.write("x" * 100_000) == 100_000
        lenient.flush()
        assert lenient.fileno() == theirs
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, theirs)  # what is left in the buffer
        os.close(nothing)


def ended(script: str) -> int:
    """Return the exit status of a script."""
    words = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(words, env=environment(), stderr=subprocess.DEVNULL) as process:
        try:
            return process.wait()
        finally:
            process.kill()
