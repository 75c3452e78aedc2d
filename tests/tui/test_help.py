"""The help page fits every terminal, is searched by typing, and begins with the keys of the open screen."""

from __future__ import annotations

import re

import pytest

from jaxtop.tui.dialogs.help import EVERYWHERE, Help
from tests import builders
from tests.stage import Stage, line, play


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (120, 40), (250, 80)], ids=str)
def test_it_begins_with_the_keys_of_the_screen_in_columns_that_fit(size):
    async def act(stage: Stage) -> None:
        await stage.press("question_mark")
        shown = stage.text
        assert re.search(r"x +Mute", shown) and "Esc closes" in shown
        titles = line("Overview  ", shown[shown.index("type to search") :])
        assert len(re.findall(r"[A-Z][a-z ]+?(?=  )", titles)) == max(1, min(3, size[0] // 39))
        page = stage.screen._page
        assert page.region.width >= max(map(len, str(page.content).splitlines()))

    play(act, *builders.well(), size=size)


def test_typing_leaves_the_keys_with_these_words_and_q_is_a_letter_of_them():
    async def act(stage: Stage) -> None:
        await stage.press("3", "question_mark", *"column sort")
        assert "Sort by the next column" in stage.text
        assert "Palette" not in stage.text and EVERYWHERE not in stage.text
        await stage.press(*"q")
        assert "nothing has these words" in stage.text
        await stage.press("escape")
        assert not isinstance(stage.screen, Help)
        await stage.press("question_mark", "q")
        assert not isinstance(stage.screen, Help) and stage.app.is_running

    play(act, *builders.well())


def test_a_low_terminal_scrolls_to_the_meaning_of_the_colours():
    async def act(stage: Stage) -> None:
        await stage.press("question_mark")
        assert "from low to high" not in stage.text
        await stage.press(*["pagedown"] * 12)
        assert "no data, or a note" in stage.text

    play(act, *builders.well(), size=(40, 10))
