"""Where a machine is busy, tests wait longer, and what hangs is ended and said all the same."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from itertools import count

import pytest

from tests import patience
from tests.support import ROOT, eventually

CORES = len(os.sched_getaffinity(0))
HANGS = """
import asyncio, os, time
import pytest
from tests import patience
from tests.support import eventually

def at_load(each):
    os.getloadavg = lambda: (each * len(os.sched_getaffinity(0)),) * 3

@pytest.mark.timeout(1.0)
def test_that_hangs():
    at_load(1)
    time.sleep(600)

@pytest.mark.timeout(1.0)
def test_that_waits_in_vain():
    at_load(1)
    eventually(lambda: 0, every=0.01)

@pytest.mark.timeout(1.0)
def test_that_has_no_core():
    at_load(1000)
    time.sleep(2.5)

@pytest.mark.timeout(1.0)
def test_that_has_no_core_and_hangs():
    at_load(4)
    time.sleep(600)
"""


@pytest.fixture
def busy(monkeypatch):
    def with_processes(for_each_core: float) -> None:
        monkeypatch.setattr(os, "getloadavg", lambda: (0.0, for_each_core * CORES, 0.0))

    return with_processes


@pytest.mark.parametrize(("for_each_core", "factor"), [(0.1, 1.0), (1.0, 1.0), (4.5, 4.5), (1000, 10.0)])
def test_a_limit_is_as_much_longer_as_processes_share_a_core(busy, for_each_core, factor):
    busy(for_each_core)
    assert patience.Deadline(60).left() == pytest.approx(60 * factor, abs=1)


def test_a_promise_has_its_own_limit_and_every_other_wait_that_of_its_test(busy):
    busy(1)
    assert patience.deadline(3).left() < 3
    assert 10 < patience.deadline().left() < 180
    with pytest.raises(
        AssertionError, match=r"not within 0 s, with 1\.0 processes .* the last answer was \[\]"
    ):
        eventually(list, within=0)


def test_each_test_has_one_limit_and_what_hangs_is_said(tmp_path):
    file = tmp_path / "test_hanging.py"
    file.write_text(HANGS)
    words = ["-m", "pytest", "-q", "-p", "tests.conftest", "--rootdir", str(tmp_path), str(file)]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    failed = {
        line.split("::")[1].split()[0] for line in done.stdout.splitlines() if line.startswith("FAILED")
    }
    assert failed == {"test_that_hangs", "test_that_waits_in_vain", "test_that_has_no_core_and_hangs"}
    assert "the last answer was 0" in done.stdout and "1 passed" in done.stdout


def test_a_scene_that_hangs_says_where(busy, monkeypatch):
    async def scene() -> None:
        await where_it_hangs()

    async def where_it_hangs() -> None:
        await asyncio.Event().wait()

    busy(1)
    monkeypatch.setattr(patience, "_test", patience.Deadline(0))
    with pytest.raises(AssertionError, match="not over after") as failed:
        asyncio.run(patience.limited(scene()))
    assert "where_it_hangs" in str(failed.getrepr(style="short", chain=True))


def test_what_computes_for_too_long_fails_by_its_cpu_time_alone():
    with patience.cpu_time(0.05):
        time.sleep(0.2)
    with pytest.raises(AssertionError, match=r"not over after 0\.05 s of CPU time"), patience.cpu_time(0.05):
        all(True for _ in count())


def test_a_scene_that_ends_returns_what_it_has():
    async def scene() -> int:
        return 7

    assert asyncio.run(patience.limited(scene())) == 7
