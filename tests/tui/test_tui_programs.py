"""The screen of the programs, as a person uses it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.base import units
from tests import builders
from tests.builders import frame
from tests.stage import Stage, line, play, shown_after
from tests.staged import devices as staged_devices


def seen(*frames, keys=("7",), size=(200, 50)) -> str:
    return shown_after(*frames, keys=keys, size=size)


def test_each_program_has_a_line_with_what_it_needs():
    row = line("jit_train_step", seen(*staged_devices.compiled(), size=(220, 50))).split()
    assert row[:3] == ["jit_train_step", "20", "15.4G"] and row[5:7] == ["1", "10.0"]
    assert {"15.4G", "21.5T", "12.4s", "6.1G", "5.8G", "9.2G", "18.0G", "5d41402a"} <= set(row)
    assert row[-2:] == ["train.py:102", "main"]


def test_the_most_needy_come_first():
    shown = seen(*staged_devices.compiled())
    assert shown.index("jit_evaluate") < shown.index("jit_train_step") < shown.index("jit_sample")


def test_what_nobody_knows_is_not_zero():
    row = line("jit__normal", seen(*staged_devices.compiled())).split()
    assert row[1:3] == ["n/a", "4.0M"] and row[5:6] == ["n/a"]


def test_processes_that_differ_are_named_with_a_sign():
    shown = seen(*staged_devices.at_odds(), keys=("7", "j"))
    assert len([each for each in shown.splitlines() if "≠ host" in each and "jit_tra" in each]) >= 2
    assert "≠ compiled differently by host" in shown


def test_what_a_launch_needs_is_a_bar_up_to_what_a_device_could_hold():
    shown = seen(*staged_devices.compiled(), keys=("7", "j")).splitlines()
    at = next(i for i, row in enumerate(shown) if "█ arguments 6.1G" in row)
    assert "█ temporaries 9.2G   51.2M more than is free" in shown[at] and "█████" in shown[at - 1]
    assert "then 9.2G free" in seen(*staged_devices.compiled(), keys=("7", "G"))


def test_a_storm_has_a_sign_and_a_hint():
    shown = seen(*staged_devices.at_odds(), keys=("7", "G"))
    assert line("▌ ! jit_sample", shown).split()[6] == "17"
    assert "its arguments change shape" in shown


def test_why_a_function_was_compiled_again_is_shown_with_the_time_lost():
    cause = wire.Compilation(9, "train_step", "train.py:9", 700, "shape", "batch", "f32[8]", "f32[7]")
    compiled = wire.CompiledLine("train_step", "train.py:9", 2, 12_900, 1)
    programs = (
        staged_devices.programs(host, staged_devices.STEP, compilations=(cause,), lines=(compiled,))
        for host in (0, 1)
    )
    frames = [*builders.well(), *programs]
    shown = seen(*frames, size=(250, 50))
    assert "shape batch" in line("jit_train_step", shown) and "12.9s" in line("jit_train_step", shown)
    assert "compiled again: shape of batch changed: f32[8] → f32[7]" in shown
    assert "compilations of this name took 12.9s" in shown


def test_a_launch_that_may_not_fit_is_marked_and_one_that_runs_is_not():
    shown = seen(*staged_devices.compiled())
    assert "▲ jit_evaluate" in shown and "▲ jit_train_step" not in shown
    assert "a launch may not fit into the fullest device" in shown


def test_without_allocators_there_is_no_headroom():
    frames = [
        *builders.well(),
        staged_devices.programs(0, staged_devices.STEP),
        staged_devices.programs(1, staged_devices.STEP),
    ]
    shown = seen(*frames)
    assert "may not fit" not in shown and "n/a" in line("jit_train_step", shown)


def test_enter_leads_to_the_host_that_has_another_one():
    async def act(stage: Stage) -> None:
        await stage.press("7", "j", "enter")
        assert stage.screen_shown == "screen-hosts"
        assert any(row.startswith("▌") and "node0" in row for row in stage.text.splitlines())

    play(act, *staged_devices.at_odds())


def test_words_find_programs():
    shown = seen(*staged_devices.compiled(), keys=("7", "/", *"evalu"))
    assert "1 of 4" in shown and "jit_sample" not in shown


def test_it_says_why_there_are_none():
    assert "no programs yet: no process has reported" in seen()
    assert "no process has compiled any" in seen(*builders.well())
    off = replace(builders.hello(0), sources={"programs": "off: Missing: no live_executables"})
    assert "no programs: off: Missing" in seen(frame(builders.agent_id(0), off))


class TestAmounts:
    @pytest.mark.parametrize(
        ("value", "written"),
        [
            (None, "n/a"),
            (0, "0"),
            (999, "999"),
            (1500, "1.5k"),
            (12_300_000, "12.3M"),
            (456e9, "456G"),
            (2e20, "200E"),
        ],
    )
    def test_powers_of_a_thousand(self, value, written):
        assert units.amount(value) == written

    @pytest.mark.parametrize(("value", "written"), [(None, "n/a"), (40, "40ms"), (12_400, "12.4s")])
    def test_durations(self, value, written):
        assert units.duration(value) == written
