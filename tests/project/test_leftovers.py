"""A test that fails leaves nothing running, so that it does not make others fail."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.cases import thorough
from tests.real import leftovers
from tests.support import PYTHON, ROOT, eventually, started

FAILING = """
import os, subprocess, sys, time

def test_fails():
    # A child, and an orphan in a session of its own.
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    between = os.fork()
    if not between:
        orphan = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
        )
        open({pids!r}, "w").write(f"{{child.pid}} {{orphan.pid}}")
        os._exit(0)
    os.waitpid(between, 0)
    assert 0, "as planned"
"""


KILLED = """
import socket, time
from pathlib import Path
from tests.cli.test_terminals import in_a_terminal
from tests.support import in_a_group

def test_lasts(home):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"127.0.0.1:{silent.getsockname()[1]}"
        with (
            in_a_group(home, "snapshot", target, "--watch", "600") as command,
            in_a_terminal("attach", target, TERM="xterm-256color") as (app, _),
        ):
            draft = home / "draft"
            draft.write_text(f"{command.pid} {app.pid}")
            draft.rename(__PIDS__)
            time.sleep(600)
"""


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_a_failed_test_has_started_is_ended_before_the_next_one(tmp_path):
    pids = tmp_path / "pids"
    file = tmp_path / "test_failing.py"
    check = "\ndef test_next():\n    pass\n"
    file.write_text(FAILING.format(pids=str(pids)) + check)
    root = str(ROOT)
    words = ["-m", "pytest", "-q", "-p", "tests.conftest", "--rootdir", str(tmp_path), str(file)]
    done = subprocess.run([sys.executable, *words], cwd=root, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "Processes that were left running, and ended" in done.stdout
    for pid in map(int, pids.read_text().split()):
        eventually(lambda pid=pid: not is_running(pid))


@pytest.mark.parametrize(
    "more",
    [thorough((), id="one"), pytest.param(("-p", "tests.side_by_side", "--side-by-side", "1"), id="forks")],
)
def test_tests_that_are_killed_leave_no_command_and_no_app_running(tmp_path, more):
    pids, file = tmp_path / "pids", tmp_path / "test_lasting.py"
    file.write_text(KILLED.replace("__PIDS__", repr(str(pids))))
    words = [PYTHON, "-m", "pytest", "-q", "-p", "tests.conftest", *more, "--rootdir", tmp_path, file]
    runner = started(words, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: pids.exists() or runner.poll() is not None)
        left = [*map(int, pids.read_text().split())]
        assert all(map(is_running, left))
    finally:
        runner.kill()
        runner.wait()
    eventually(lambda: not any(map(is_running, left)))


def test_only_what_began_since_is_ended():
    before = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        time.sleep(0.02)  # starts are dated by hundredths of a second
        began = leftovers.now()
        after = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        assert len(leftovers.end_since(began)) == 1
        assert before.poll() is None
        assert after.wait() == -signal.SIGKILL
    finally:
        before.kill()
        before.wait()
