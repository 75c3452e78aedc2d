"""The core works without features, and each feature without the others."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import jaxtop
import jaxtop.features
from jaxtop.base.feature import HOOKS, features, load
from jaxtop.cli import COMMANDS
from tests.recording.test_record_replay import agents
from tests.support import PYTHON, ROOT, environment

PACKAGE = Path(jaxtop.__file__).parent
# Every screen of the app is opened once; the keys that then work are printed.
OPENS = """
import json
from jaxtop.tui.screens import SCREENS
from tests import builders
from tests.stage import play

found = {}

async def act(stage):
    for screen in SCREENS:
        await stage.press(screen.key)
        found[screen.title] = sorted(stage.screen.active_bindings)

play(act, *builders.well())
print(json.dumps(found))
"""


def without(folder: Path, *left_out: str) -> Path:
    """The package in this folder, without these of its features."""
    package = folder / "jaxtop"
    package.mkdir()
    for each in PACKAGE.iterdir():
        if each.name not in {"features", "__pycache__"}:
            (package / each.name).symlink_to(each)
    kept = [each for each in (PACKAGE / "features").iterdir() if each.name not in left_out]
    if set(jaxtop.features.NAMES) - set(left_out):
        (package / "features").mkdir()
        for each in kept:
            (package / "features" / each.name).symlink_to(each)
    return folder


def said_by(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [PYTHON, *words],
        env=environment(PYTHONPATH=f"{folder}:{ROOT}"),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not done.returncode, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


CORE = {
    "run",
    "ls",
    "attach",
    "snapshot",
    "check",
    "record",
    "replay",
    "demo",
    "config",
    "completion",
    "doctor",
}


def test_the_core_works_without_features(tmp_path):
    """Snapshot, check, record and replay work; no command of a feature is in the help."""
    core = without(tmp_path, *jaxtop.features.NAMES)
    shown = said_by(core, "-m", "jaxtop", "--help")
    assert {name for name in COMMANDS if f"    {name} " in shown} == CORE
    file = tmp_path / "session.mcap"
    with agents(hosts=2) as (address, _):
        live = json.loads(said_by(core, "-m", "jaxtop", "snapshot", address))
        assert [each["state"] for each in live["hosts"]] == ["live", "live"]
        assert "rules checked" in said_by(core, "-m", "jaxtop", "check", address)
        said_by(core, "-m", "jaxtop", "record", address, "-o", str(file), "--duration", "3s")
    moment = json.loads(said_by(core, "-m", "jaxtop", "replay", str(file), "--at", "+2s"))
    assert len(moment["hosts"]) == 2 and "operations" not in moment["programs"][0]


def test_the_app_works_without_features(tmp_path):
    found = json.loads(said_by(without(tmp_path, *jaxtop.features.NAMES), "-c", OPENS))
    assert found.keys() >= {"Overview", "Mesh", "Memory", "Collectives", "Programs"}
    assert not found.keys() & {"Plan", "Operations"}
    assert not {"W", "O", "C"} & set(found["Overview"])


@pytest.mark.parametrize("gone", features(), ids=lambda each: each.name)
def test_the_commands_of_the_others_have_their_help_without_one_feature(tmp_path, gone):
    rest = without(tmp_path, gone.name)
    left = COMMANDS.keys() - gone.commands.keys()
    words = (
        "from jaxtop.cli import parser_of_all as p; print(*(each.format_help() for each in p()[1].values()))"
    )
    helped = said_by(rest, "-c", words)
    assert all(f"jaxtop {command} " in helped for command in left)
    assert not any(f"usage: jaxtop {command} " in helped for command in gone.commands)


WITH_SCREENS = [each for each in features() if each.screens or "app_capturer" in each.hooks]


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(each, id=each.name, marks=[] if each.name == "operations" else [pytest.mark.thorough])
        for each in WITH_SCREENS
    ],
)
def test_all_screens_open_without_the_feature_of_one(tmp_path, gone):
    opened = json.loads(said_by(without(tmp_path, gone.name), "-c", OPENS))
    assert opened.keys().isdisjoint(each.title for each in gone.screens)


def test_a_declaration_imports_nothing_heavy(tmp_path):
    words = "import sys, jaxtop.base.feature as f; f.features(); print(*sys.modules)"
    loaded = said_by(tmp_path, "-c", words).split()
    declared = {"jaxtop.features", *(f"jaxtop.features.{name}" for name in jaxtop.features.NAMES)}
    assert {each for each in loaded if each.startswith("jaxtop.features")} == declared
    assert not {"textual", "zmq", "msgspec", "argparse", "jaxtop.wire", "jaxtop.model"} & set(loaded)


def test_the_agent_loads_no_feature_in_the_training_process(tmp_path):
    words = "import sys, jaxtop_agent.loading as l; l.Loading().load(); print(*sys.modules)"
    loaded = said_by(tmp_path, "-c", words).split()
    assert "jaxtop.traces" in loaded
    assert not {each for each in loaded if each.startswith("jaxtop.features")}


def test_every_declared_place_exists():
    for each in features():
        places = [screen.place for screen in each.screens]
        places += [*each.hooks.values(), *each.options.values(), *each.attributes.values()]
        places += [command.module for command in each.commands.values()]
        assert all(load(place) is not None for place in places)
        assert set(each.hooks) <= set(HOOKS)
        assert set(each.attributes) <= set(jaxtop.__all__)


def test_every_feature_is_listed_and_says_what_it_is_for():
    folders = {each.name for each in (PACKAGE / "features").iterdir() if (each / "__init__.py").exists()}
    assert folders == set(jaxtop.features.NAMES) == {each.name for each in features()}
    assert all((PACKAGE / "features" / name / "README.md").read_text().strip() for name in folders)
