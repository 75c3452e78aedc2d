"""Which versions of JAX are called untested, in words, and where they are said."""

from __future__ import annotations

import pytest

from jaxtop.base.tested_versions import HIGHEST_JAX, LOWEST_JAX, untested, untested_name, written
from jaxtop.cli import doctor
from jaxtop.store import runfiles
from tests import builders
from tests.made.agents import hello_here
from tests.stage import play

LOWEST, HIGHEST = written(LOWEST_JAX), written(HIGHEST_JAX)
NEWER = f"{HIGHEST_JAX[0]}.{HIGHEST_JAX[1] + 2}.1"
RANGE = f"jaxtop was tested with ({written(LOWEST_JAX[:2])} to {HIGHEST})"


@pytest.mark.parametrize(
    "version", [LOWEST, "0.8", "0.10.2", HIGHEST, f"{HIGHEST}.7.1", "0.9.0.dev20260101", "", None, "?"]
)
def test_versions_of_the_range_and_unknown_ones_are_not_untested(version):
    assert untested(version) == untested_name(version) == ""


@pytest.mark.parametrize(
    ("version", "name", "which"),
    [
        ("0.7.2", "JAX 0.7", "older"),
        ("0.4.35", "JAX 0.4", "older"),
        (NEWER, f"JAX {NEWER.rpartition('.')[0]}", "newer"),
        ("1.0", "JAX 1.0", "newer"),
        ("1.0.0.dev20300101+abc", "JAX 1.0", "newer"),
    ],
)
def test_others_are_named_with_the_range(version, name, which):
    assert untested_name(version) == name
    assert untested(version) == f"{name} is {which} than any that {RANGE}"


def test_doctor_says_it_of_the_installed_version_and_of_live_runs():
    assert doctor._judge("0.10.2") == ("ok", "0.10.2")
    verdict, words = doctor._judge(NEWER)
    assert verdict == "note" and RANGE in words and "some sources may be off" in words
    runfiles.write(hello_here("a1", run="r1", jax=NEWER))
    runfiles.write(hello_here("a2", run="r1", jax="0.10.2"))
    shown = [each for each in doctor._run_files() if RANGE in each.text]
    assert [each.verdict for each in shown] == ["note"]


def test_the_header_has_a_quiet_word_and_the_pane_of_a_host_the_sentence():
    async def act(stage):
        assert "untested" not in stage.text
        stage.feed.frames = [
            builders.frame(builders.agent_id(0), builders.hello(0, jax=NEWER), builders.NOW, 9)
        ]
        await stage.paint()
        assert f"JAX {NEWER.rpartition('.')[0]} untested" in stage.line("header")
        await stage.press("3")
        assert f"JAX {NEWER.rpartition('.')[0]} is newer than any" in stage.text

    play(act, *builders.well(), size=(160, 40))
