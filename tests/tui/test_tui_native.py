"""Native frames on the screen of stacks, as a person sees them."""

from __future__ import annotations

from tests.stage import line, play, shown_after
from tests.staged.collectives import with_native


def test_native_frames_stand_below_the_lines_of_their_thread():
    async def act(stage):
        await stage.press("9", "enter")
        lines = [each.strip() for each in stage.text.splitlines()]
        at = next(i for i, each in enumerate(lines) if each.startswith("native"))
        assert "train.py:120" in lines[at - 1]
        assert lines[at + 1].startswith("libc.so.6+0x85f16") and lines[at + 2].startswith("gloo::allreduce")
        assert "libjax_common.so" in lines[at + 2]

    play(act, *with_native(), size=(140, 60))


def test_a_condition_finds_hosts_by_their_native_frames():
    keys = ("9", "slash", *"native~gloo", "enter")
    assert "3 of 4" in shown_after(*with_native(), keys=keys, size=(200, 50))


def test_a_stack_without_native_frames_has_no_heading():
    shown = shown_after(*with_native(), keys=("9", "j", "enter"), size=(140, 60))
    assert line("host 3", shown) and "native" not in shown
