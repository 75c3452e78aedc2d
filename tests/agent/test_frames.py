"""Variables of running functions are read without a trace, on every Python that is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import thorough
from tests.support import ROOT

VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def interpreter(version: str) -> str:
    """A Python of this version; skips where there is none."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    managed = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*"))
    found = str(managed[-1] / "bin" / "python") if managed else shutil.which(f"python{version}")
    works = found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0
    return found if found and works else pytest.skip(f"no Python {version} here")


def ended(version: str, *words: str) -> tuple[str, str]:
    """What a program of `tests/programs` printed, run by this version of Python."""
    name, *arguments = words
    done = subprocess.run(
        [interpreter(version), ROOT / "tests" / "programs" / name, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "agent")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("mode", ["plain", "traced"])
@pytest.mark.parametrize("version", VERSIONS)
def test_reading_variables_keeps_nothing_and_changes_nothing(version, mode):
    """Also under a trace function, as debuggers set it, and where the script holds its locals."""
    assert ended(version, "frames.py", mode) == ("ok\n", "")


@pytest.mark.parametrize("mode", [thorough("alone"), "threads"])
@pytest.mark.parametrize("version", VERSIONS)
def test_reading_variables_harms_nobody_while_garbage_is_collected(version, mode):
    """No crash, no standstill; and the collection is on or off as the program has it."""
    assert ended(version, "collecting.py", mode) == ("ok\n", "")
