"""The app on frames that were recorded, as if they came now, for pictures of it."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from jaxtop.tui.app import JaxtopApp
from tests.stage import Clock, Feed, Stage, notified

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from jaxtop import wire


class FramePlayer:
    """The app, and the frames that it has not yet received."""

    def __init__(self, frames: Sequence[wire.Frame], stage: Stage) -> None:
        self.stage = stage
        self._frames = frames
        self._next = 0

    async def play_until(self, at: float) -> None:
        """Show what the app shows at this time of the frames."""
        first = self._next
        while self._next < len(self._frames) and self._frames[self._next].at <= at:
            self._next += 1
        self.stage.feed.frames += self._frames[first : self._next]
        self.stage.clock.now = at
        await self.stage.paint()

    async def picture(self) -> str:
        """Return what is shown as SVG, in which all programs keep the spaces of indents."""
        await self.stage.pilot.pause(0.2)
        drawn = self.stage.app.export_screenshot(title="jaxtop")
        return re.sub(r"<text (?!xml:)", '<text xml:space="preserve" ', drawn)


@asynccontextmanager
async def playing(frames: Sequence[wire.Frame], size: tuple[int, int]) -> AsyncIterator[FramePlayer]:
    """An app that has not received any of these frames."""
    feed, clock = Feed(), Clock()
    clock.now = frames[0].at - 1
    app = JaxtopApp(feed, clock)
    async with app.run_test(size=size) as pilot:
        yield FramePlayer(frames, Stage(app, feed, clock, pilot, notified(app)))
