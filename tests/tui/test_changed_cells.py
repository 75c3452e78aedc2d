"""What is sent to the terminal: only cells that changed, and yet it shows what is drawn."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from jaxtop.tui.changed_cells import ChangedCells
from tests import builders, patience
from tests.real.written import Emulator, WrittenStage, on_terminal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

CONSOLE = Console(color_system="truecolor", force_terminal=True)
STYLES = [None, *(Style.parse(each) for each in ("red", "bold #102030 on #fafafa", "reverse"))]
LETTERS = "ab   ⣿⣤█日本"


def strip(*parts: tuple[str, Style | None]) -> Strip:
    return Strip([Segment(text, style) for text, style in parts])


def any_strip(dice: random.Random, width: int) -> Strip:
    """Return a strip of wide and narrow letters in a few styles."""
    drawn = strip(*(("".join(dice.choices(LETTERS, k=5)), dice.choice(STYLES)) for _ in range(width)))
    return drawn.adjust_cell_length(width)


def test_a_terminal_that_gets_changes_only_shows_the_same():
    dice, cells, terminal = random.Random(1), ChangedCells(), Emulator()
    for _ in range(500):
        before = any_strip(dice, 30)
        start = dice.randrange(30)
        after = Strip.join([before.crop(0, start), any_strip(dice, dice.randint(0, 30 - start))])
        for each in (before, after.adjust_cell_length(30)):
            terminal.feed(cells.send(4, 2, each, CONSOLE))
            whole = Emulator()
            whole.feed(ChangedCells().send(4, 2, each, CONSOLE))
            assert terminal.cells == whole.cells


def test_what_did_not_change_is_not_sent():
    cells = ChangedCells()
    clock = [strip(("step 432ms" + " " * 60 + f"08:00:0{second}", STYLES[1])) for second in range(3)]
    first, second, again = (cells.send(0, 0, each, CONSOLE) for each in (clock[0], clock[1], clock[1]))
    assert "432ms" in first
    assert "1" in second
    assert "08:" not in second
    assert again == ""


def test_two_changes_near_to_each_other_are_sent_as_one():
    cells = ChangedCells()
    cells.send(0, 0, strip(("12.5% of 64 cores     and 7 others" + "." * 30 + "9", None)), CONSOLE)
    sent = cells.send(0, 0, strip(("13.7% of 64 cores     and 7 others" + "." * 30 + "8", None)), CONSOLE)
    assert sent.count("H") == 2
    assert "3.7" in sent


def run(act: Callable[[WrittenStage], Awaitable[None]], size: tuple[int, int]) -> None:
    async def on_training() -> None:
        async with on_terminal(*builders.training(), size=size) as stage:
            await stage.paint()
            await act(stage)

    asyncio.run(patience.limited(on_training()))


def test_the_terminal_shows_what_the_app_draws():
    size = 100, 30

    async def act(stage: WrittenStage) -> None:
        terminal = Emulator()
        for key in ("1", "3", "j", "question_mark", "escape", "2", "l", "5", "6", "0", "8", "slash", "a"):
            stage.clock.now += 1
            stage.feed.frames += builders.training(stage.clock.now)
            await stage.press(key)
            terminal.feed(stage.taken())
            assert terminal.text(*size) == stage.text

    run(act, size)


def test_the_whole_screen_is_sent_again_on_request():
    async def act(stage: WrittenStage) -> None:
        async def sent_for(redraw: Callable[[], Any]) -> str:
            stage.taken()
            redraw()
            await stage.paint()
            terminal = Emulator()
            terminal.feed(stage.taken())
            return terminal.text(80, 24)

        assert await sent_for(lambda: None) != stage.text
        assert await sent_for(lambda: stage.app.simulate_key("ctrl+l")) == stage.text
        assert await sent_for(lambda: stage.app.app_resume_signal.publish(stage.app)) == stage.text

    run(act, (80, 24))
