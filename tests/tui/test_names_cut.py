"""Long names and sentences where there is little room."""

from __future__ import annotations

import random

import pytest

from jaxtop.base.names import shorten
from jaxtop.tui.draw.table import fit


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("short", 5, "short"),
        ("state.opt_state[0].mu['Dense_0']['kernel']", 24, "state.…['kernel']"),
        ("models/transformer.py:120 forward", 24, "models/…:120 forward"),
        ("/home/someone/project/models/transformer.py:1", 30, "/home/…/transformer.py:1"),
        ("collective-permute", 16, "collect…-permute"),
        ("process 3 on node03 is stopped: the process does not run", 32, "process 3 on node03 is stopped…"),
        ("abcdefghijklmnopqrstuvwxyz", 11, "abcd…uvwxyz"),
        ("state.params", 7, "state.…"),
        ("state", 0, ""),
    ],
)
def test_a_text_is_cut_between_words_and_a_name_in_its_middle(text, room, shown):
    assert shorten(text, room) == shown


def test_what_is_cut_keeps_both_ends_and_never_needs_more_room():
    dice = random.Random(7)
    for _ in range(2_000):
        text = "".join(dice.choice("ab_. /[]'") for _ in range(dice.randrange(60)))
        room = dice.randrange(40)
        shown = shorten(text, room)
        assert len(shown) <= room
        head, _, tail = shown.partition("…")
        assert text.startswith(head) and text.endswith(tail)


@pytest.mark.parametrize(
    "text", ["state.params['Dense_0']['kernel']", "日本語のホスト名", "a longer sentence than that"]
)
@pytest.mark.parametrize("width", range(20))
def test_a_cell_has_its_width_whatever_is_cut(text, width):
    assert len(fit(text, width).encode("utf-16-le")) // 2 <= width
    if text.isascii():
        assert len(fit(text, width)) == width
