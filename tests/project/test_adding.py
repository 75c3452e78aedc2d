"""The pages that say how to add something are true: their examples work in one copy of the project.

An example consists of new files, and of lines that are added to others, below the line before them.
"""

from __future__ import annotations

import re
import subprocess
from shutil import copy, copytree, ignore_patterns
from typing import TYPE_CHECKING

from tests import patience
from tests.support import PYTHON, ROOT, environment

if TYPE_CHECKING:
    from pathlib import Path

NEW = re.compile(r"^`([\w/.]+)`, new:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDED = re.compile(r"^`([\w/.]+)`;[^`]*`\+`[^`]*:\n\n```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ("adding-a-figure", "adding-a-rule", "adding-a-screen", "adding-a-feature")
TESTS = re.compile(r"^    \.venv/bin/python -m pytest (.*)$", re.MULTILINE)


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def with_lines(text: str, difference: str) -> str:
    """Return a text with the lines of a difference; what is not added is the next such line of the text."""
    lines, at = text.splitlines(), 0
    for line in difference.splitlines():
        if line.startswith("+"):
            at += 1
            lines.insert(at, line[1:])
        else:
            at = lines.index(line[1:], at)
    return "\n".join(lines) + "\n"


def test_the_examples_of_all_pages_work_together(tmp_path):
    copy(ROOT / "pyproject.toml", tmp_path)
    for name in ("jaxtop", "agent", "tests", "docs"):
        copytree(ROOT / name, tmp_path / name, ignore=ignore_patterns("__pycache__"))
    tests = []
    for page in PAGES:
        text = (ROOT / "docs/development" / f"{page}.md").read_text()
        for name, content in NEW.findall(text):
            write(tmp_path / name, content)
        for name, difference in ADDED.findall(text):
            write(tmp_path / name, with_lines((tmp_path / name).read_text(), difference))
        tests += TESTS.search(text)[1].split()
    done = subprocess.run(
        # A folder of its own: with the shared one, it would tidy up what other tests leave at that moment.
        [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 't'}", *tests],
        env=environment(PYTHONPATH=f"{tmp_path}:{tmp_path / 'agent'}"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patience.left(),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
