"""The palette finds what has a name, and a screen starts at what is accused."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from jaxtop import wire
from jaxtop.tui.places import Destinations, places
from tests import builders
from tests.builders import NOW, agent_id, frame
from tests.stage import Stage, play
from tests.staged import collectives as staged_collectives
from tests.staged import devices as staged_devices
from tests.staged.hardware import working

TRAINING = builders.training()


def row_of(stage: Stage) -> Any:
    view: Any = stage.app.navigation.view
    return view.table.row


async def found(stage: Stage, typed: str) -> list[str]:
    provider = Destinations(stage.app.screen)
    return [str(hit.match_display) async for hit in provider.search(typed)]


@pytest.mark.parametrize(
    ("typed", "name", "screen"),
    [
        ("device 5", "device 5 on node01", "devices"),
        ("node01", "host 1 (node01)", "hosts"),
        ("kernel", "array state.params['Dense_0']['kernel']", "arrays"),
    ],
)
def test_the_palette_finds_a_name_and_opens_its_row(typed, name, screen):
    async def act(stage: Stage) -> None:
        assert name in await found(stage, typed)
        place = next(each for each in places(stage.app.moment) if each.name == name)
        stage.app.post_message(place.opens)
        await stage.paint()
        assert stage.screen_shown == f"screen-{screen}"
        row = row_of(stage)
        shown = {
            "devices": lambda: str(row.device.id),
            "hosts": lambda: row.host.label,
            "arrays": lambda: row.label,
        }[screen]()
        assert shown in name or shown.lstrip("[").rstrip("]") in name

    play(act, *TRAINING)


def test_the_palette_finds_programs():
    async def act(stage: Stage) -> None:
        (first, *_) = stage.app.moment.program_views
        assert f"program {first.function}" in await found(stage, first.function[:4])
        named = next(each for each in places(stage.app.moment) if each.opens.screen == "programs")
        stage.app.post_message(named.opens)
        await stage.paint()
        assert row_of(stage).view.program.name == named.opens.row

    play(act, *staged_devices.at_odds())


def test_a_name_that_nothing_has_finds_nothing_and_many_are_cut():
    async def act(stage: Stage) -> None:
        assert await found(stage, "no such name") == []
        assert 0 < len(await found(stage, "o")) <= 40

    play(act, *TRAINING)


LIKE_TAGS = "loss[/b]", "accuracy[red]", "[@click=app.quit]norm"


def with_scalars() -> list[Any]:
    values, at_ms = array("f", [3.0, 2.0, 1.0]).tobytes(), int(NOW * 1000)
    curves = tuple(wire.ScalarCurve(name, at_ms - 5000, 1000, values) for name in LIKE_TAGS)
    return [*working(5), frame(agent_id(0), wire.Curves(at_ms, curves), NOW, 9_999)]


def test_the_palette_finds_plots_and_names_that_look_like_tags_are_only_names():
    async def act(stage: Stage) -> None:
        assert await found(stage, "plot step time") == ["plot step time"]
        for name in LIKE_TAGS:
            assert await found(stage, f"plot {name}") == [f"plot {name}"]
        await stage.press("colon", *"norm")
        await stage.until(lambda: LIKE_TAGS[-1] in stage.text)
        await stage.press("escape")

    play(act, *with_scalars())


def test_the_plot_lists_its_figures_and_a_part_of_a_name_is_enough():
    async def act(stage: Stage) -> None:
        await stage.press("D", "j", "0", "slash")
        await stage.until(lambda: "plot utilisation" in stage.text)
        await stage.press(*"accu")
        await stage.until(lambda: "plot utilisation" not in stage.text)
        await stage.press("enter")
        await stage.until(lambda: "accuracy[red] of 0 node00" in stage.text)
        await stage.press("slash", *"power")
        await stage.until(lambda: "plot power" in stage.text and "plot loss" not in stage.text)
        await stage.press("enter")
        await stage.until(lambda: "power of device 1" in stage.text)

    play(act, *with_scalars())


def test_a_screen_starts_at_the_accused():
    """The collective that others wait in is selected however one comes there, and so is the late host."""

    async def act(stage: Stage) -> None:
        await stage.press("6")
        accused, row = stage.app.moment.findings[0].row, row_of(stage)
        assert (row.run, row.program, row.op) == accused
        await stage.press("3")
        assert row_of(stage).host.agent == agent_id(3)

    play(act, *staged_collectives.late())
