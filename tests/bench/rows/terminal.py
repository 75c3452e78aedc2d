"""What the app writes to a terminal in the time of a generated session, whatever the load of the machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.bench.frame import Figure, whole
from tests.made import sessions as made_sessions
from tests.real.written import on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop import wire
    from tests.bench.frame import Setting
    from tests.real.written import WrittenStage

SIZES = ((80, 24), (200, 50))
SCREENS = {"1": "Overview", "2": "Mesh", "3": "Hosts", "D": "Devices", "0": "Plot"}
# The seconds before the first screen is measured, and those after each key.
SETTLE, AFTER_KEY = 30, 2
PAINTS_PER_SECOND = 4


def measure(setting: Setting) -> Iterator[Figure]:
    """Measure each screen by the second, with what is sent and with what Textual would send."""
    seconds = setting.pick(20, 5)
    for size in SIZES:
        sent, lines = (asyncio.run(_written(size, seconds, whole_lines=each)) for each in (False, True))
        for name in SCREENS.values():
            label = f"{name} {size[0]}×{size[1]}"
            yield Figure(label, whole(sent[name]), "kB/s")
            yield Figure(f"{label}, whole lines", whole(lines[name]), "kB/s")


async def _written(size: tuple[int, int], seconds: int, *, whole_lines: bool) -> dict[str, list[float]]:
    """Return the kilobytes of each second, by screen."""
    length = SETTLE + (AFTER_KEY + seconds) * len(SCREENS)
    made = made_sessions.Made(hosts=4, devices=8, seconds=length, has_trouble=False)
    left = sorted(made_sessions.frames(made), key=lambda frame: frame.at)
    found: dict[str, list[float]] = {}
    async with on_terminal(size=size) as stage:
        if whole_lines:
            stage.app._cells.only_changes = lambda update: update
        stage.clock.now = made.start
        for _ in range(SETTLE):
            left = await _second(stage, left)
        for key, name in SCREENS.items():
            await stage.press(key)
            for _ in range(AFTER_KEY):
                left = await _second(stage, left)
            found[name] = []
            for _ in range(seconds):
                stage.taken()
                left = await _second(stage, left)
                found[name].append(len(stage.taken().encode()) / 1000)
    return found


async def _second(stage: WrittenStage, frames: Sequence[wire.Frame]) -> list[wire.Frame]:
    """Paint for a second; return the frames that are later."""
    left = list(frames)
    for _ in range(PAINTS_PER_SECOND):
        stage.clock.now += 1 / PAINTS_PER_SECOND
        due = [frame for frame in left if frame.at <= stage.clock.now]
        stage.feed.frames += due
        left = left[len(due) :]
        await stage.paint()
    return left
