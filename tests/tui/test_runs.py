"""Several live runs: the list of them in the app, and the switch from one to another."""

from __future__ import annotations

from jaxtop.tui.dialogs.picker import RunPicker
from tests import builders
from tests.builders import NOW
from tests.stage import Stage, TwoRuns, play


def lines(stage: Stage) -> list[str]:
    return [line.rstrip() for line in stage.text.splitlines()]


def test_the_list_marks_the_run_that_is_shown_and_escape_changes_nothing():
    runs = TwoRuns()

    async def act(stage: Stage) -> None:
        await stage.press("3", "R")
        assert isinstance(stage.screen, RunPicker) and "2 live runs: choose one" in stage.text
        (train,) = [line for line in lines(stage) if "train" in line]
        assert "●" in train and not any("●" in line for line in lines(stage) if "evaluate" in line)
        await stage.press("escape")
        assert stage.screen_shown == "screen-hosts" and not runs.followed

    play(act, *builders.well(), runs=runs)


def test_another_run_is_shown_from_the_start():
    runs = TwoRuns()

    async def act(stage: Stage) -> None:
        await stage.press("5", "R", "j", "enter")
        await stage.until(lambda: runs.left == 1)
        await stage.paint()
        assert runs.followed == ["r2"] and [run.id for run in stage.app.moment.runs] == ["r2"]
        assert stage.screen_shown == "screen-overview" and stage.app.moment.now == NOW
        await stage.press("3")
        assert "node00" in stage.text
        await stage.press("R", "k", "enter")
        await stage.until(lambda: runs.left == 2)
        assert runs.followed == ["r2", "r1"]

    play(act, *builders.well(), runs=runs)


def test_the_run_that_is_shown_or_has_ended_is_not_opened_again():
    runs = TwoRuns()

    async def act(stage: Stage) -> None:
        await stage.press("R", "enter")
        assert not runs.followed and stage.screen_shown == "screen-overview"
        await stage.press("R", "j")
        del runs.cells["r2"]
        await stage.press("enter")
        await stage.until(lambda: bool(stage.said))
        assert [run.id for run in stage.app.moment.runs] == ["r1"]
        assert "r2 has ended" in stage.said

    play(act, *builders.well(), runs=runs)


def test_without_a_list_the_key_says_why():
    runs = TwoRuns()
    runs.why_none = "the runs are elsewhere"

    async def act(stage: Stage) -> None:
        await stage.press("R")
        assert not isinstance(stage.screen, RunPicker)
        assert "the runs are elsewhere" in stage.said

    play(act, *builders.well(), runs=runs)


def test_it_works_with_the_mouse():
    runs = TwoRuns()

    async def act(stage: Stage) -> None:
        await stage.pilot.click("#header", offset=(9, 0))
        assert isinstance(stage.screen, RunPicker)
        await stage.pilot.click("RunPicker Table", offset=(5, 2))
        await stage.pilot.click("RunPicker Table", offset=(5, 2))
        await stage.until(lambda: runs.left == 1)
        assert runs.followed == ["r2"]

    play(act, *builders.well(), runs=runs)


def test_in_a_replay_there_is_nothing_to_switch_to():
    async def act(stage: Stage) -> None:
        await stage.press("R")
        assert not isinstance(stage.screen, RunPicker)

    play(act, *builders.well())


def test_the_app_begins_with_notes_on_the_choice():
    async def act(stage: Stage) -> None:
        assert "showing train [0] (r2)" in stage.said

    play(act, *builders.well(), notes=["showing train [0] (r2)"])
