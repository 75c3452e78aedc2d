"""The bar that shows the current position in time and moves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.message import Message

from jaxtop.tui.core.palette import palette_of
from jaxtop.tui.draw import time_bar as draw
from jaxtop.tui.draw.switches import pressed_by, run_pressed
from jaxtop.tui.draw.time_bar import Glance, TimeBarState
from jaxtop.tui.widgets.detail import Detail, Words

if TYPE_CHECKING:
    from rich.text import Text
    from textual import events
    from textual.app import ComposeResult

# With fewer lines than this a live view has no line that says how to go back: the keys say it.
LIVE_LINE_FROM = 14
NO_SESSION = TimeBarState("", False, 0.0, (0.0, 0.0), has_history=False)


class Controls(Words):
    """The time in words, and the buttons. A button's tooltip shows its action and key."""

    async def on_click(self, event: events.Click) -> None:
        await run_pressed(event, self.app)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if not self.is_attached:
            return
        action = pressed_by(event.style)
        found = [each.binding for each in self.screen.active_bindings.values()]
        binding = next((each for each in found if each.action == action), None)
        tip = None if binding is None else f"{binding.description} ({self.app.get_key_display(binding)})"
        if tip != self.tooltip:
            self.tooltip = tip


class SeekBar(Detail):
    """The whole session: a click goes to that time, or to the event marked there; dragging scrubs."""

    @dataclass
    class Sought(Message):
        """The user asked for this time."""

        at: float

    def __init__(self) -> None:
        super().__init__(id="track")
        self._state = NO_SESSION
        # Cached until the overview, the span or the width changes.
        self._glance: tuple[object, object, Glance] = (None, None, Glance())
        self._pressed_at = 0

    def show_state(self, state: TimeBarState) -> None:
        self._state = state
        self.show(self._track)

    def _track(self, width: int, height: int) -> Text:
        state = self._state
        overview, made_of, found = self._glance
        if overview is not state.overview or made_of != (state.span, width):
            found = draw.glance(state, width)
            self._glance = state.overview, (state.span, width), found
        return draw.track(state, found, height, palette_of(self.app.theme))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        self.capture_mouse()
        x, width = self._place(event), self.content_size.width
        self._pressed_at = x
        found = draw.events_at(self._state, x, width)
        self.post_message(self.Sought(found[0].at if found else self._state.time_at(x, width)))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        event.stop()
        self.release_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        x, width = self._place(event), self.content_size.width
        tip = draw.tip(self._state, x, width)
        if tip != self.tooltip:
            self.tooltip = tip
        if self.app.mouse_captured is self and event.button and x != self._pressed_at:
            self._pressed_at = x
            self.post_message(self.Sought(self._state.time_at(x, width)))

    def _place(self, event: events.MouseEvent) -> int:
        x = event.screen_x - self.content_region.x
        return int(min(max(x, 0), max(0, self.content_size.width - 1)))


class TimeBar(Vertical):
    """The controls and the seek bar. While live, if one can go back, a line that says so."""

    DEFAULT_CSS = """
    TimeBar { height: 3; display: none; background: $panel; }
    TimeBar.on, TimeBar.live { display: block; }
    TimeBar.low { height: 2; }
    TimeBar.live { height: 1; }
    TimeBar.trackless { height: 1; }
    TimeBar Controls { height: 1; }
    TimeBar SeekBar { height: 1fr; padding: 0 1; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__(id="time")
        self._controls = Controls(id="controls")
        self._track = SeekBar()
        self._state = NO_SESSION

    def compose(self) -> ComposeResult:
        yield self._controls
        yield self._track

    def show(self, state: TimeBarState) -> None:
        self._state = state
        self.set_class(not state.has_history, "trackless")
        self._draw()
        self._track.show_state(state)

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        write = draw.live_line if self.has_class("live") else draw.controls
        self._controls.set_text(write(self._state, self.size.width, palette_of(self.app.theme)))
