"""The wheel `jaxtop-agent`: it has all that the agent imports, and says where everything else is."""

from __future__ import annotations

import ast
import json
import subprocess
import tomllib
import zipfile
from typing import TYPE_CHECKING

import pytest

from jaxtop import __version__
from tests import patience
from tests.real.wheels import built, metadata
from tests.support import PYTHON, ROOT, environment, is_one_line, run, script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGENT = ROOT / "agent"
# What `jaxtop` installs and this wheel does not.
OTHERS = ("mcap", "msgpack", "plotille", "rich", "textual", "zstandard")
# Imported only where somebody asked for a black box, which names what is missing.
OF_THE_BLACK_BOX = {"mcap", "zstandard"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built("wheel", tmp_path_factory.mktemp("agent"), project=AGENT)


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory) -> Path:
    """A folder with what is installed, which hides the packages that are not."""
    folder = tmp_path_factory.mktemp("alone")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    hides = f"import sys\nsys.modules.update(dict.fromkeys({OTHERS}))\n"  # None: an import of it fails
    (folder / "sitecustomize.py").write_text(hides)
    return folder


def here(alone: Path, **more: str) -> dict[str, str]:
    return environment(PYTHONPATH=str(alone), **more)


def started_alone(alone: Path, *words: object, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command of jaxtop from that folder."""
    return subprocess.run(
        [PYTHON, "-m", "jaxtop", *map(str, words)],
        env=here(alone, **more), cwd=alone,
        capture_output=True, text=True, timeout=patience.left(), check=False,
    )  # fmt: skip


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports when it is loaded or later, but for its types."""
    tree = ast.parse(path.read_text())
    for each in ast.walk(tree):
        if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING":
            each.body = []
    for each in ast.walk(tree):
        if isinstance(each, ast.Import):
            yield from (name.name for name in each.names)
        elif isinstance(each, ast.ImportFrom) and each.module:
            yield from (f"{each.module}.{name.name}" for name in each.names)


def is_there(folder: Path, name: str) -> bool:
    """Whether this is a module, or the name of something in a module."""
    for module in (name, name.rpartition(".")[0]):
        path = folder / module.replace(".", "/")
        if path.with_suffix(".py").is_file():
            return True
    package = path / "__init__.py"
    return (folder / name.replace(".", "/")).is_dir() or (
        package.is_file() and not (ROOT / name.replace(".", "/")).with_suffix(".py").is_file()
    )


def test_all_that_the_agent_imports_is_in_its_wheel(alone):
    files = [*(alone / "jaxtop_agent").rglob("*.py"), alone / "jaxtop/cli/run.py", alone / "jaxtop/plan.py"]
    files += (alone / "jaxtop/wire").rglob("*.py")
    missing = {
        f"{path.relative_to(alone)}: {name}"
        for path in files
        for name in imported(path)
        if name.split(".")[0] in {"jaxtop", "jaxtop_agent"} and not is_there(alone, name)
    }
    assert missing == {"jaxtop/cli/run.py: jaxtop.cli.settings"}  # said: see the test of the user's file


def test_it_needs_four_packages_and_those_of_jaxtop_in_the_same_versions(wheel):
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [each for each in metadata(wheel).get_all("Requires-Dist") if "extra" not in each]
    assert len(needed) == 4
    assert {each.replace(" ", "") for each in needed} <= {
        each.replace(" ", "") for each in whole["dependencies"]
    }
    assert metadata(wheel)["Version"] == __version__


TRAINS = """
import json, sys
import jax, jax.numpy as jnp
from jaxtop import agent
agent.start(name="alone")
step = jax.jit(lambda x: x * 2)
x = jnp.ones(8)
for _ in range(20):
    x = step(x)
loaded = sorted(name for name, each in sys.modules.items() if name.split(".")[0] in OTHERS and each)
print(json.dumps([agent.__file__, loaded, float(x[0])]))
"""


@pytest.mark.jax
@pytest.mark.newest
def test_a_script_runs_with_it_and_nothing_else_of_jaxtop(alone, tmp_path):
    path = script(tmp_path, TRAINS.replace("OTHERS", repr(OTHERS)))
    done = run(PYTHON, path, env=here(alone), imports_jax=True)
    assert (done.returncode, done.stderr) == (0, "")
    where, loaded, result = json.loads(done.stdout)
    assert where.startswith(str(alone)) and loaded == [] and result == 2.0**20


@pytest.mark.jax
@pytest.mark.newest
def test_every_module_of_the_agent_can_be_loaded_with_it(alone, tmp_path):
    code = """
import importlib, jax, jaxtop_agent, pkgutil
for each in pkgutil.walk_packages(jaxtop_agent.__path__, "jaxtop_agent."):
    if not each.name.endswith(("sitecustomize", ".blackbox")):
        importlib.import_module(each.name)
print("done")
"""
    done = run(PYTHON, script(tmp_path, code), env=here(alone), imports_jax=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_file_of_settings_is_not_read_and_that_is_said(alone, tmp_path):
    config = tmp_path / "config/jaxtop/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[run]\ninterval = 2\n")
    done = started_alone(alone, "run", "-c", "print(1)", XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert is_one_line(done.stderr) and "does not read config.toml" in done.stderr


def test_a_black_box_that_it_cannot_write_is_said_and_the_script_runs(alone, tmp_path):
    path = script(tmp_path, "print(1 + 1)")
    done = started_alone(alone, "run", "--record", tmp_path / "boxes", path)
    assert (done.returncode, done.stdout) == (0, "2\n")
    assert "jaxtop-agent[record]" in done.stderr and is_one_line(done.stderr)


@pytest.mark.parametrize("words", [["attach"], [], ["plan"], ["snapshot", "x"], ["--man"]], ids=" ".join)
def test_other_commands_say_where_they_are(alone, words):
    done = started_alone(alone, *words)
    assert done.returncode and done.stdout == ""
    assert is_one_line(done.stderr) and "pip install jaxtop" in done.stderr


def test_its_help_lists_all_commands(alone):
    done = started_alone(alone, "--help")
    assert done.returncode == 0 and "attach" in done.stdout
