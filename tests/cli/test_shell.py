"""Completions in real shells, and the manual page: both from the parsers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from msgspec.structs import replace

from jaxtop.cli import COMMANDS, completion
from jaxtop.store import runfiles
from tests.made.agents import hello_here
from tests.support import PYTHON, is_one_line, jaxtop, run


@pytest.fixture
def live_runs():
    """Two live runs, one of which has a name that a shell would execute."""
    for name, agent in (("train", "a1"), ("$(touch hacked)", "a2")):
        runfiles.write(replace(hello_here(agent), name=name, run=f"run-of-{agent}"))


@pytest.fixture
def path(monkeypatch):
    """The installed command comes first in PATH."""
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")


def shell(program: str, text: str, *options: str) -> list[str]:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    done = subprocess.run([program, *options, "-c", text], capture_output=True, text=True, check=False)
    assert done.stderr == "", done.stderr
    return done.stdout.splitlines()


def completed_by_bash(folder, *words: str) -> list[str]:
    file = folder / "jaxtop.bash"
    file.write_text(completion.script("bash"))
    quoted = " ".join(f"'{word}'" for word in words)
    return shell(
        "bash",
        f"""
        source {file}
        COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
        $(complete -p jaxtop | sed 's/.*-F \\([^ ]*\\).*/\\1/') 2>/dev/null
        printf '%s\\n' "${{COMPREPLY[@]}}"
        """,
    )


@pytest.mark.usefixtures("live_runs", "path")
def test_bash_completes_commands_options_choices_and_runs(tmp_path):
    assert set(completed_by_bash(tmp_path, "jaxtop", "")) >= set(COMMANDS)
    assert completed_by_bash(tmp_path, "jaxtop", "snap") == ["snapshot"]
    assert "--via" in completed_by_bash(tmp_path, "jaxtop", "attach", "--")
    assert completed_by_bash(tmp_path, "jaxtop", "snapshot", "--format", "o") == ["openmetrics"]
    assert "train" in completed_by_bash(tmp_path, "jaxtop", "attach", "")
    assert not (tmp_path / "hacked").exists()


@pytest.mark.usefixtures("live_runs", "path")
def test_fish_completes_them_too(tmp_path):
    file = tmp_path / "jaxtop.fish"
    file.write_text(completion.script("fish"))
    found = shell("fish", f"source {file}; complete -C 'jaxtop attach '", "--no-config")
    assert any(each.startswith("train") for each in found)


def test_zsh_reads_its_script(tmp_path):
    file = tmp_path / "_jaxtop"
    file.write_text(completion.script("zsh"))
    assert file.read_text().startswith("#compdef jaxtop")
    assert shell("zsh", f"zsh -n {file}") == []


@pytest.mark.usefixtures("live_runs")
def test_only_names_that_no_shell_expands_are_offered():
    assert jaxtop("completion", "runs").stdout.split() == ["run-of-a1", "run-of-a2", "train"]


def test_without_the_extra_it_says_what_to_install():
    code = "import sys; sys.modules['shtab'] = None; from jaxtop.cli import main; sys.exit(main())"
    done = run(PYTHON, "-c", code, "completion", "bash")
    assert done.returncode == 2 and "pip install 'jaxtop[shell]'" in done.stderr and is_one_line(done.stderr)


def test_the_manual_has_every_command_and_no_mistake():
    page = jaxtop("--man").stdout
    assert all(f".SS jaxtop {name}" in page for name in COMMANDS) and r"\-\-via CMD" in page
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8"], input=page, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "") and "recognise each other" in done.stdout
