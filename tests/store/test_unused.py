"""Processes of `jaxtop run` that have not used JAX yet: `ls`, `check` and `attach` say so."""

from __future__ import annotations

import sys
from subprocess import PIPE

import pytest

from jaxtop.store import runfiles, unused
from jaxtop.store.unused import Unused
from tests.made.agents import hello_here
from tests.support import JAXTOP, jaxtop_here, processes, script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

WAITS = """
    import subprocess, sys, time
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    print(child.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def waiting(tmp_path):
    """A script that hangs in its imports, with a child, and how `jaxtop run` starts it."""

    def start(*words):
        return processes([*JAXTOP, "run", *words], stdout=PIPE, cwd=tmp_path)

    script(tmp_path, WAITS, "imp0.py")
    return start


@pytest.mark.parametrize(
    ("words", "name"),
    [(["imp0.py"], "imp0"), (["--name", "big", "imp0.py", "-x"], "big"), (["-m", "imp0"], "imp0")],
)
def test_a_process_that_has_not_used_jax_is_named(waiting, words, name):
    with waiting(*words) as (process,):
        assert process.stdout.readline()
        assert Unused(process.pid, name) in unused.find()
        listed = jaxtop_here("ls").stdout
        assert f"not shown: {name} (pid {process.pid}): its script has not used JAX yet" in listed
        for command in ("check", "snapshot"):
            done = jaxtop_here(command, name)
            assert (
                f"'{name}' runs (process {process.pid}) but is not shown: its script has not" in done.stderr
            )
            assert done.returncode == (3 if command == "check" else 2)
    assert process.pid not in [each.pid for each in unused.find()]


def test_its_children_are_not_named_and_neither_is_it_once_a_process_of_it_is_shown(waiting):
    with waiting("imp0.py") as (process,):
        child = int(process.stdout.readline())
        assert child not in [each.pid for each in unused.find()]
        runfiles.write(hello_here("a1", child))
        assert process.pid not in [each.pid for each in unused.find()]


def test_where_nothing_is_known_the_message_says_what_may_be():
    assert "a process is shown once its script uses JAX" in jaxtop_here("check", "no-such-run").stderr
