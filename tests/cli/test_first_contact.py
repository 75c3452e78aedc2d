"""The first minute: what `make demo` says while it installs and starts, and when the app opens."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from tests import install
from tests.real.terminals import in_a_terminal, read_until
from tests.support import PYTHON, ROOT, eventually, group, run

if TYPE_CHECKING:
    import psutil


@pytest.fixture
def wheel(tmp_path):
    """A package that pip can install."""
    path = tmp_path / "tiny-1.0-py3-none-any.whl"
    with ZipFile(path, "w") as file:
        file.writestr("tiny.py", "")
        file.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr("tiny-1.0.dist-info/RECORD", "")
    return path


def installing(folder, *packages: object) -> list[object]:
    return [PYTHON, ROOT / "tests" / "install.py", "--no-index", "--target", folder, *packages]


def test_on_a_terminal_each_step_is_on_one_line_with_a_bar(tmp_path, wheel):
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(installing(tmp_path, wheel), stdout=theirs, stderr=theirs)
        os.close(theirs)
        seen = read_until(ours, "1 package installed")
        assert process.wait() == 0
    finally:
        os.close(ours)
    steps = [each.strip("\n").partition(",")[0].removeprefix("\x1b[K") for each in seen.split("\r")]
    assert list(dict.fromkeys(filter(None, steps))) == [
        "looking for packages",
        f"installing 1 package {'░' * install.BAR} 0",
        "1 package installed",
    ]
    assert "\n" not in seen.partition("1 package installed")[0]


def test_elsewhere_each_step_has_a_line_of_its_own(tmp_path, wheel):
    done = run(*installing(tmp_path, wheel))
    *steps, last = done.stdout.splitlines()
    assert steps == ["looking for packages", "installing 1 package"]
    assert last.startswith("1 package installed, ") and done.stderr == ""


def test_what_pip_says_of_an_error_is_shown(tmp_path):
    done = run(*installing(tmp_path, "no-such-package"))
    assert done.returncode == 1
    assert "no-such-package" in done.stderr and "pip could not install" in done.stderr


def test_a_bar_is_full_at_the_end_and_not_before():
    bars = [install.bar(done, 26) for done in range(27)]
    assert [each.count("█") == install.BAR for each in bars] == [False] * 26 + [True]
    assert bars[0] == "░" * install.BAR


def trainers(demo) -> list[psutil.Process]:
    """Return both processes of a demo, once they run their own program."""
    found = [each for each in group(demo) if each.pid != demo.pid]
    return found if sum("jaxtop_agent.demo.train" in each.cmdline() for each in found) == 2 else []


@pytest.mark.jax
@pytest.mark.newest
def test_the_app_of_the_demo_opens_before_a_process_has_said_anything():
    """And says what it waits for, as does the line before the app is there."""
    with in_a_terminal("demo", "--hosts", "2", "--devices", "1", TERM="xterm-256color") as terminal:
        process, screen = terminal
        for each in eventually(lambda: trainers(process), every=0.01):
            each.send_signal(signal.SIGSTOP)
        seen = read_until(screen, "starting 2 processes with 1 device each")
        assert "\x1b[?1049h" not in seen  # the screen of the app
        assert "\x1b[?1049h" in read_until(screen, "# starting 2 processes with 1 device each")
        os.write(screen, b"q")
        read_until(screen, "no such words")
        assert process.wait() == 0
