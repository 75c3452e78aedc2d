"""The tabs and the keys: whole words at every width, and a mark where a screen has a finding."""

from __future__ import annotations

import re

import pytest

from jaxtop.model import Severity
from jaxtop.tui.core.palette import PALETTES
from jaxtop.tui.screens import SCREENS
from jaxtop.tui.widgets.key_bar import Item, footer, one_line, tabs
from tests import builders
from tests.stage import Stage, play
from tests.staged import collectives as staged_collectives

PALETTE = PALETTES["jaxtop-dark"]
OPEN, FOUND = "Plan", "Collectives"
NAMES = {each.key: (each.title, each.short) for each in SCREENS}
ITEMS = tuple(
    Item(
        each.key,
        each.title,
        f"screen('{each.name}')",
        each.title == OPEN,
        each.short,
        Severity.CRITICAL if each.title == FOUND else None,
        each.keeps,
    )
    for each in SCREENS
)
GENERAL = (Item("?", "Help", "help"), Item("q", "Quit", "quit"))


@pytest.mark.parametrize("width", range(5 * len(SCREENS), 260, 7))
def test_names_are_whole_words_and_every_screen_has_its_key(width):
    """A screen that is too rare for the width has no tab; the open one has its name."""
    line = tabs(ITEMS, width, PALETTE)
    assert line.cell_len <= width
    shown: dict[str, str] = {}
    for span in line.spans:
        action = span.style.meta["press"]
        shown[action] = shown.get(action, "") + line.plain[span.start : span.end]
    named = {each[0]: each[1:].strip().rstrip("▲") for each in shown.values()}
    assert all(name in ("", *NAMES[key]) for key, name in named.items())
    assert named.keys() == NAMES.keys() and named["W"] == OPEN


def test_all_have_their_names_where_there_is_room_and_the_longest_is_shortened_first():
    assert all(each.title in tabs(ITEMS, 200, PALETTE).plain for each in SCREENS)
    least = tabs(ITEMS, 200, PALETTE).cell_len
    shorter = tabs(ITEMS, least - 1, PALETTE).plain
    assert "O Ops" in shorter and "6 Collectives▲" in shorter


def test_the_signs_of_findings_take_no_name_at_120_columns():
    marked = tuple(item._replace(severity=Severity.WARNING) for item in ITEMS)
    line = tabs(marked, 120, PALETTE).plain
    assert line.count("△") == len(SCREENS)
    assert all(re.search(rf"{title}|{short}", line) for title, short in NAMES.values())


def test_the_line_of_a_low_terminal_fits_and_keeps_what_a_lost_user_needs():
    keys = (*(Item(key, "A longer name", key) for key in "abc"), Item("[", "Rewind", "step(-1)"))
    for width in range(40, 130):
        line = one_line(ITEMS, keys, GENERAL, width, PALETTE).plain
        assert len(line) == width and "[ Rewind  ? Help  q Quit" in line
    assert "a A longer name" in footer(keys, GENERAL, 60, PALETTE).plain


@pytest.mark.parametrize(("line", "size"), [("tabs", (120, 40)), ("keys", (120, 24))])
def test_the_screen_that_proves_a_finding_is_marked_until_the_finding_is_muted(line, size):
    async def act(stage: Stage) -> None:
        assert re.search(r"6 Co(llectives|mms)▲", stage.line(line))
        await stage.press("x")
        assert "▲" not in stage.line(line)

    play(act, *staged_collectives.late(), size=size)


def test_a_low_terminal_gives_the_line_of_the_tabs_to_the_screen():
    async def act(stage: Stage) -> None:
        assert stage.app.navigation.view.size.height == 40 - 4
        await stage.pilot.resize_terminal(120, 24)
        await stage.paint()
        assert stage.app.navigation.view.size.height == 24 - 3

    play(act, *builders.well(), size=(120, 40))
