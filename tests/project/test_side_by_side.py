"""Tests that run in forks are reported as those that run one after the other."""

from __future__ import annotations

import os

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
DIES = """
    import os, pytest

    @pytest.mark.together("last")
    def test_dies(): os._exit(7)
    @pytest.mark.together("last")
    def test_comes_after_it(): pass
"""


def test_each_test_is_reported_once_also_one_that_takes_its_fork_with_it(tmp_path):
    script(tmp_path, TESTS, "test_these.py")
    script(tmp_path, DIES, "test_those.py")
    plugins = ("-p", "tests.side_by_side", "--side-by-side", "2", "-p", "no:cacheprovider")
    options = ("-rA", "--strict-markers", "-o", "markers=together: as in ours", "--rootdir", tmp_path)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = run(PYTHON, "-m", "pytest", *plugins, *options, cwd=tmp_path, env=env)
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
