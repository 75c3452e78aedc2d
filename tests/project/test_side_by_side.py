"""Tests that run in forks are reported as those that run one after the other."""

from __future__ import annotations

import os

from tests.side_by_side import NICENESS_OF_FILLERS
from tests.support import PYTHON, ROOT, run, script

TESTS = """
    import os, pytest

    @pytest.fixture(scope="module")
    def shared():
        open(f"made-{os.getpid()}", "w").close()
        yield os.getpid()
        open("left", "w").close()

    def test_passes(tmp_path): assert os.listdir(tmp_path) == []
    def test_fails(capsys):
        print("printed")
        assert 1 == 2
    @pytest.mark.skipif(True, reason="not here")
    def test_is_skipped(): pass
    @pytest.mark.parametrize("number", range(3))
    def test_shares(shared, number): assert shared == os.getpid()
    def test_stands_apart(): assert len(os.listdir(".")) > 0
"""
FILLING = """
    import os, pytest

    def ran(name): open(f"{name}-{os.nice(0)}-{os.getpid()}", "w").close()

    @pytest.mark.jax
    def test_starts_jax():
        while len([each for each in os.listdir() if each.startswith("small")]) < 3: pass
        ran("large")
    @pytest.mark.jax
    def test_starts_jax_too(): ran("large too")
    @pytest.mark.parametrize("number", range(3))
    def test_is_small(number): ran(f"small{number}")
"""
WAITING = """
    import os, pytest

    def wait_for(name):
        open(f"here-{os.environ['PYTEST_CURRENT_TEST'].partition('::')[2].split()[0]}", "w").close()
        while not os.path.exists(f"here-{name}"): pass

    @pytest.mark.jax
    def test_one(): wait_for("test_other")
    @pytest.mark.jax
    def test_other(): wait_for("test_one")
    def test_is_small(): pass
"""
DIES = """
    import os, pytest

    @pytest.mark.together("last")
    def test_dies(): os._exit(7)
    @pytest.mark.together("last")
    def test_comes_after_it(): pass
"""


def report_on(folder, *words):
    """What pytest says of the tests of a folder, which run in forks."""
    plugins = ("-p", "tests.side_by_side", *words, "-p", "no:cacheprovider")
    markers = "markers=together: as in ours\njax: as in ours"
    options = ("-rA", "--strict-markers", "-o", markers, "--rootdir", folder)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return run(PYTHON, "-m", "pytest", *plugins, *options, cwd=folder, env=env)


def test_fillers_run_what_starts_no_jax_while_the_others_wait(tmp_path):
    """Each test once, and those that fill the time with low priority."""
    script(tmp_path, FILLING, "test_filling.py")
    done = report_on(tmp_path, "--side-by-side", "1", "--fillers", "1")
    assert done.returncode == 0 and "5 passed" in done.stdout, done.stdout
    ran = sorted(each.name.split("-") for each in tmp_path.glob("*-*"))
    usual = os.nice(0)
    low = min(usual + NICENESS_OF_FILLERS, 19)
    assert [(name, int(nice)) for name, nice, _ in ran] == [
        ("large", usual),
        ("large too", usual),
        *((f"small{number}", low) for number in range(3)),
    ]


def test_where_nothing_is_left_to_fill_with_more_of_what_waits_runs_at_a_time(tmp_path):
    """Two tests that wait for each other: neither waits behind the other."""
    script(tmp_path, WAITING, "test_waiting.py")
    done = report_on(tmp_path, "--side-by-side", "1", "--fillers", "1")
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout
    assert "ended last" in done.stdout


def test_each_test_is_reported_once_also_one_that_takes_its_fork_with_it(tmp_path):
    script(tmp_path, TESTS, "test_these.py")
    script(tmp_path, DIES, "test_those.py")
    done = report_on(tmp_path, "--side-by-side", "2")
    told = sorted(
        line for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "SKIPPED"))
    )
    assert done.returncode == 1 and "2 failed, 6 passed, 1 skipped" in done.stdout, done.stdout
    assert told == [
        "FAILED test_these.py::test_fails - assert 1 == 2",
        "FAILED test_those.py::test_dies - the process that ran it has ended: 7",
        "PASSED test_these.py::test_passes",
        *(f"PASSED test_these.py::test_shares[{number}]" for number in range(3)),
        "PASSED test_these.py::test_stands_apart",
        "PASSED test_those.py::test_comes_after_it",
        "SKIPPED [1] test_these.py:14: not here",
    ]
    assert "printed" in done.stdout
    assert len([*tmp_path.glob("made-*")]) == 1 and (tmp_path / "left").exists()
