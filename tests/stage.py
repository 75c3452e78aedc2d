"""Run the app in tests, with a feed, a fixed clock and a pilot."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
import textual.app
import textual.pilot
from textual._compositor import Compositor
from textual._context import active_app
from textual.css.stylesheet import Stylesheet
from textual.widgets import ContentSwitcher, Static

from jaxtop.tui.app import JaxtopApp
from jaxtop.tui.dialogs.picker import LiveRuns
from jaxtop.tui.runs import FollowedRun
from tests import builders, patience
from tests.builders import NOW

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from textual.css.model import RuleSet

    from jaxtop import wire
    from jaxtop.model import Cluster


async def until_idle(*_: float) -> None:
    """Wait until no callback of the event loop is ready and nothing is left to draw.

    Textual's own wait compares CPU time with wall time: a process that gets no CPU looks idle to it.
    """
    app, loop = active_app.get(), cast("Any", asyncio.get_running_loop())
    while True:
        await asyncio.sleep(0)
        while loop._ready:  # noqa: ASYNC110 - no event tells that nothing is left to run
            await asyncio.sleep(0)
        if getattr(app, "_resize_timer", None) is not None:  # older versions resize without one
            app._check_resize()
        elif app.screen_stack and app.screen._update_timer._active.is_set():
            app.screen._on_timer_update()
        else:
            return


async def until_handled(*_: object) -> bool:
    """Wait until all widgets have handled their messages, without one more message for each of them."""
    await until_idle()
    return True


parse_rules = Stylesheet._parse_rules


def parsed_once(sheet: Stylesheet, css: str, *where: Any, **of: Any) -> list[RuleSet]:
    """Parse the same rules once, not for each app."""
    key = (css, *where, *of.items(), *sheet._variables.items())
    if key not in PARSED:
        PARSED[key] = parse_rules(sheet, css, *where, **of)
    return PARSED[key]


PARSED: dict[tuple[object, ...], list[RuleSet]] = {}
for module in (textual.app, textual.pilot):
    module.wait_for_idle = until_idle  # type: ignore[attr-defined]
textual.pilot.Pilot._wait_for_screen = until_handled
Stylesheet._parse_rules = parsed_once


def not_drawn(compositor: Compositor, **_: object) -> None:
    """Skip what a terminal would receive; a stage draws whole screens, once they are done."""
    compositor._dirty_regions.clear()


class Feed:
    """A source for the app, filled by a test."""

    def __init__(self, *frames: wire.Frame) -> None:
        self.frames = list(frames)
        self.reason: str | None = None
        self.skipped: dict[str, int] = {}

    def drain(self) -> list[wire.Frame]:
        taken, self.frames = self.frames, []
        return taken

    def folded(self, frames: Sequence[wire.Frame], cluster: Cluster) -> None:
        """Ignore the frames."""

    def failure(self) -> str | None:
        return self.reason

    def rejected(self) -> dict[str, int]:
        return self.skipped

    def notes(self) -> list[str]:
        return []


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def notified(app: JaxtopApp) -> list[str]:
    """Return what the app will say in toasts, which themselves go after seconds of wall time."""
    said, notify = [], app.notify

    def hear(message: str, **more: Any) -> None:
        said.append(message)
        notify(message, **more)

    app.notify = hear
    return said


class Stage:
    """An app in a test, with its feed and its clock."""

    def __init__(self, app: JaxtopApp, feed: Feed, clock: Clock, pilot: Any, said: list[str]) -> None:
        self.app, self.feed, self.clock, self.pilot, self.said = app, feed, clock, pilot, said

    @property
    def screen(self) -> Any:
        return self.app.screen

    @property
    def view_shown(self) -> Any:
        """The screen of the app that is shown."""
        return self.app.navigation.view

    async def press(self, *keys: str) -> None:
        at = keys.index("W") + 1 if "W" in keys else 0
        if at:  # the keys after it are for the rows of the plan
            await self.pilot.press(*keys[:at])
            await self.paint()
        await self.pilot.press(*keys[at:])
        await self.paint()

    async def paint(self) -> None:
        """Fold and show what has arrived, and the last of several seeks, and end planning."""
        self.app._tick()
        await self.pilot.pause()
        while self._is_at_work and self.app.is_running:
            await self.pilot.pause(0.01)
        if self.app.is_running:
            await self.pilot.pause()  # what the fold has posted
            self.screen._compositor.render_strips()

    @property
    def _is_at_work(self) -> bool:
        is_planning = getattr(self.view_shown, "is_planning", False)
        return bool(self.app._is_folding or self.app.time.is_resting or is_planning)

    async def until(self, check: Callable[[], bool]) -> None:
        """Wait for what takes time: results of a search come in batches, toasts by a timer."""
        while not check():
            await self.pilot.pause(0.01)

    def line(self, name: str) -> str:
        return str(self.app.query_one(f"#{name}", Static).content)

    @property
    def screen_shown(self) -> str:
        return str(self.app.query_one(ContentSwitcher).current)

    @property
    def text(self) -> str:
        """The text of the whole screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def play(
    act: Callable[[Stage], Awaitable[None]],
    *frames: wire.Frame,
    size: tuple[int, int] = (120, 40),
    **more: Any,
) -> None:
    """Run the app on these frames, or on a replay if one is given, and act on it."""

    async def run() -> None:
        feed, clock = Feed(*frames), Clock()
        app = JaxtopApp(None if "replay" in more else feed, clock, **more)
        said = notified(app)
        async with app.run_test(size=size) as pilot:
            stage = Stage(app, feed, clock, pilot, said)
            await stage.paint()
            await act(stage)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Compositor, "render_update", not_drawn)
        asyncio.run(patience.limited(run()))


def shown_after(*frames: wire.Frame, keys: Sequence[str], size: tuple[int, int], **more: Any) -> str:
    """Return the screen as text after these keys were pressed."""
    shown: list[str] = []

    async def act(stage: Stage) -> None:
        await stage.press(*keys)
        shown.append(stage.text)

    play(act, *frames, size=size, **more)
    return shown[0]


def line(word: str, shown: str) -> str:
    """Return the first line of a screen that contains this word."""
    return next(each for each in shown.splitlines() if word in each)


class TwoRuns:
    """Two live runs, of which the app shows r1."""

    why_none = ""

    def __init__(self) -> None:
        self.followed: list[str] = []
        self.left = 0
        self.cells = {"r1": ("train", "r1"), "r2": ("evaluate", "r2")}

    def live(self) -> LiveRuns:
        return LiveRuns(("NAME", "ID"), self.cells)

    def follow(self, run_id: str) -> FollowedRun | str:
        if run_id not in self.cells:
            return f"{run_id} has ended"
        self.followed.append(run_id)
        hellos = (builders.hello(index, run=run_id) for index in range(builders.PROCESSES))
        return FollowedRun(Feed(*(builders.frame(each.agent, each) for each in hellos)))

    def leave(self) -> None:
        self.left += 1
