"""Every key, on every screen, in a terminal of any size: the app answers, and does not fail."""

from __future__ import annotations

import asyncio
import random
import signal
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input

from jaxtop.tui.app import JaxtopApp
from jaxtop.tui.draw import table_lines as draw
from jaxtop.tui.screens import SCREENS
from jaxtop.tui.widgets.table import Table
from tests import builders, stage
from tests.cases import thorough
from tests.staged import collectives as staged_collectives
from tests.staged import devices as staged_devices
from tests.staged import hardware as staged_hardware
from tests.support import SOAK
from tests.tui.test_tui_table import COLUMNS, drive

if TYPE_CHECKING:
    from collections.abc import Iterator

# Too small to show anything, narrow, low, the smallest that is drawn, and the largest.
SIZES = [(1, 1), (40, 10), thorough((59, 20)), (60, 16), (300, 90)]
# Of each screen in each terminal; many more in the long run.
KEYS_A_SCREEN = 40 if SOAK else 4
# They end the app, or wait for a text.
NOT_PRESSED = {"q", "ctrl+c", "ctrl+q"}
# Of CPU: on a busy machine the same work may take any time.
STUCK_AFTER_CPU_SECONDS = 120


@pytest.fixture
def stuck_is_a_failure() -> Iterator[None]:
    """A loop without an end fails the test instead of holding up all that follow."""

    def fail(*_: object) -> None:
        raise AssertionError("the app does not answer any more")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, STUCK_AFTER_CPU_SECONDS)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.usefixtures("stuck_is_a_failure")
def test_every_key_is_answered_at_any_size(size):
    dice = random.Random(f"{size}")
    frames = [*staged_collectives.late(), *(f for f in staged_devices.at_odds() if f.kind == "programs")]
    screens = [each.key for each in SCREENS]

    async def run() -> None:
        app = JaxtopApp(stage.Feed(*frames), stage.Clock())
        async with app.run_test(size=size) as pilot:
            for screen in screens:
                await pilot.press("escape", "escape", screen)
                active = sorted(set(app.screen.active_bindings) - NOT_PRESSED)
                for key in dice.choices(active, k=KEYS_A_SCREEN):
                    app.simulate_key(key)
                await pilot.pause()
                assert app.is_running

    asyncio.run(run())


@pytest.mark.usefixtures("stuck_is_a_failure")
def test_help_is_laid_out_where_nothing_of_it_is_seen():
    async def act(stage: stage.Stage) -> None:
        for screen in SCREENS:
            await stage.press(screen.key, "question_mark", "escape")
        assert stage.app.is_running

    stage.play(act, *builders.training(), size=(1, 1))


@pytest.mark.parametrize("size", [(1, 12), (2, 12), (8, 12)], ids=str)
def test_sorting_by_a_column_for_which_there_is_no_room_ends(monkeypatch, size):
    layouts = 0
    lay_out = draw.lay_out

    def counted(*arguments):
        nonlocal layouts
        layouts += 1
        assert layouts < 1000, "the table looks for room without end"
        return lay_out(*arguments)

    monkeypatch.setattr(draw, "lay_out", counted)

    async def steps(app, pilot):
        for _ in range(2 * len(COLUMNS)):
            await pilot.press("full_stop")
        await pilot.resize_terminal(80, 12)
        assert len(app.table._layout.slots) == len(COLUMNS)

    drive(steps, sort="id", size=size)


def of_all_screens():
    """Frames that give every screen something to show."""
    more = (*staged_devices.at_odds(), *staged_devices.held(), *staged_collectives.standing())
    kinds = ("programs", "arrays", "stacks")
    return [
        *staged_collectives.late(),
        *(each for each in more if each.kind in kinds),
        builders.trouble(1, "silent"),
    ]


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param([], id="nothing"),
        pytest.param(of_all_screens(), id="all"),
        thorough(staged_hardware.working(), id="gpus"),
    ],
)
def test_every_screen_has_something_to_say_at_any_size_and_a_way_out(frames):
    async def act(stage: stage.Stage) -> None:
        for screen in SCREENS:
            await stage.press("escape", "escape", screen.key)
            for size in [(60, 16), (80, 24), (200, 50)]:
                await stage.pilot.resize_terminal(*size)
                await stage.paint()
                first, *body, last = stage.text.splitlines()
                assert first.startswith("jaxtop") and "? Help" in last, (screen.title, size)
                assert "".join(body).strip(), (screen.title, size)

    stage.play(act, *frames, size=(60, 16))


def test_a_table_has_rows_before_a_pane_has_lines():
    """With the filter open, too."""
    room: dict[tuple[str, int], int] = {}

    async def act(stage: stage.Stage) -> None:
        for screen in SCREENS[1:]:  # the overview has no filter, and as many rows as findings
            await stage.press("escape", "escape", screen.key, "slash")
            for height in (16, 18, 24):
                await stage.pilot.resize_terminal(60, height)
                await stage.paint()
                for table in stage.view_shown.query(Table):
                    room[screen.title, height] = table.size.height - 1

    stage.play(act, *of_all_screens(), size=(60, 16))
    titles = {title for title, _ in room}
    assert {"Collectives", "Events", "Hosts", "Memory", "Programs", "Stacks", "Arrays"} <= titles
    assert {key: rows for key, rows in room.items() if rows < 3} == {}


def test_narrow_events_show_what_happened_and_the_rest_below():
    """The kind and the host come after the text, and the line below names the host."""
    shown = stage.shown_after(
        *builders.well(), builders.trouble(1, "closed"), keys=("8",), size=(60, 16)
    ).splitlines()
    head = next(line for line in shown if "SEVERITY" in line)
    assert head.split()[:4] == ["TIME▼", "SEVERITY", "WHAT", "HAPPENED"]
    below = " ".join(" ".join(shown[-4:-1]).split())
    assert below.startswith("host 1 (node01)") and below.endswith("without notice")


def test_a_low_mesh_pane_marks_device_ids_that_it_leaves_out():
    shown = stage.shown_after(*builders.well(), keys=("2",), size=(60, 16))
    assert "data group: 0 2 …" in shown


def test_a_terminal_that_was_too_small_takes_keys_again_when_it_is_larger():
    async def act(stage: stage.Stage) -> None:
        await stage.press("3")
        for size in ((40, 10), (120, 40)):
            await stage.pilot.resize_terminal(*size)
            await stage.paint()
        await stage.press("slash", "x")
        assert isinstance(stage.app.focused, Input) and stage.app.focused.value == "x"

    stage.play(act, *builders.well())
