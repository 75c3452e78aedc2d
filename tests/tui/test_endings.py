"""The app while it ends, opens and closes dialogs, and changes its size: frames arrive, and nothing fails."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from textual import events
from textual.geometry import Size

from jaxtop.tui import app as app_module
from jaxtop.tui.app import JaxtopApp
from tests import builders, patience
from tests.stage import Clock, Feed, TwoRuns
from tests.support import SOAK

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600 if SOAK else 300)]

ROUNDS = 500 if SOAK else 12
TURNS = range(0, 12, 1 if SOAK else 3)
KEYS = [
    *"1234567890DOW",
    "question_mark",
    "R",
    "colon",
    "b",
    "v",
    "escape",
    "space",
    "z",
    "i",
    "enter",
    "tab",
    "M",
]
SIZES = [(120, 40), (40, 10), (60, 16), (30, 8), (200, 60), (80, 24), (120, 12)]


async def one_round(random_: random.Random) -> None:
    """Press keys, change the size and leave, without a pause for what these set off."""
    feed, clock = Feed(*builders.training()), Clock()
    app = JaxtopApp(feed, clock, runs=TwoRuns())
    ends_by: Any = random_.choice(
        [app.exit, lambda: app.simulate_key("q"), lambda: app.simulate_key("ctrl+q")]
    )
    async with app.run_test(size=random_.choice(SIZES)):
        for _ in range(random_.randrange(12)):
            clock.now += 1
            feed.frames += builders.training(clock.now)
            if random_.random() < 0.3:
                size = Size(*random_.choice(SIZES))
                app.post_message(events.Resize(size, size))
            else:
                app.simulate_key(random_.choice(KEYS))
            for _ in range(random_.randrange(6)):
                await asyncio.sleep(random_.choice([0, 0.001, 0.01]))
        ends_by()
        for _ in range(random_.randrange(20)):
            app._tick() if random_.random() < 0.5 and app.is_running else None
            await asyncio.sleep(0)


def test_whatever_is_pressed_when_it_ends_nothing_fails(monkeypatch):
    monkeypatch.setattr(app_module, "PAINTS_PER_SECOND", 1000)
    failed = []
    for seed in range(ROUNDS):
        try:
            asyncio.run(patience.limited(one_round(random.Random(seed))))
        except Exception as error:
            failed.append(f"{seed}: {type(error).__name__}: {error}"[:200])
    assert failed == []


def ends_while(begin, turns: int) -> None:
    """End an app so many turns of the loop after this was begun."""

    async def act() -> None:
        app = JaxtopApp(Feed(*builders.training()), Clock(), runs=TwoRuns())
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            begun = asyncio.ensure_future(begin(app))
            for _ in range(turns):
                await asyncio.sleep(0)
            app.exit()
            await begun

    asyncio.run(patience.limited(act()))


@pytest.mark.parametrize("turns", TURNS)
def test_an_app_may_end_while_a_screen_opens(turns):
    ends_while(lambda app: app.navigation.action_screen("hosts"), turns)


@pytest.mark.parametrize("turns", TURNS)
def test_an_app_may_end_while_another_run_opens(turns):
    ends_while(lambda app: app.navigation.begin_again(), turns)
