"""The bar that shows the current position in time and moves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from jaxtop.tui.draw import time_bar as draw
from jaxtop.tui.draw.time_bar import Glance, TimeBarState
from jaxtop.tui.palette import Palette, palette_of
from jaxtop.tui.switches import pressed_by

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

NO_SESSION = TimeBarState("", False, 0.0, (0.0, 0.0), has_history=False)


class Controls(Static):
    """The time in words, and the buttons. A button's tooltip shows its action and key."""

    async def on_click(self, event: events.Click) -> None:
        action = pressed_by(event.style)
        if action is not None:
            event.stop()
            await self.app.run_action(action)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        action = pressed_by(event.style)
        found = [each.binding for each in self.screen.active_bindings.values()]
        binding = next((each for each in found if each.action == action), None)
        tip = None if binding is None else f"{binding.description} ({self.app.get_key_display(binding)})"
        if tip != self.tooltip:
            self.tooltip = tip


class SeekBar(Widget):
    """The whole session: a click goes to that time, or to the event marked there; dragging scrubs."""

    class Sought(Message):
        """The user asked for this time."""

        def __init__(self, at: float) -> None:
            super().__init__()
            self.at = at

    def __init__(self) -> None:
        super().__init__(id="track")
        self._state = NO_SESSION
        # Cached until the overview, the span or the width changes.
        self._glance: tuple[object, object, Glance] = (None, None, Glance())
        self._shown = Text()
        self._pressed_at = 0

    def show(self, state: TimeBarState) -> None:
        """Show this state."""
        self._state = state
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width, height = self.content_size
        state = self._state
        overview, made_of, found = self._glance
        if overview is not state.overview or made_of != (state.span, width):
            found = draw.glance(state, width)
            self._glance = state.overview, (state.span, width), found
        shown = draw.track(state, found, height, palette_of(self.app.theme))
        if shown != self._shown or shown.spans != self._shown.spans:
            self._shown = shown
            self.refresh()

    def render(self) -> Text:
        return self._shown

    # The mouse

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
    """The controls and the seek bar; visible when the view does not simply show the present."""

    DEFAULT_CSS = """
    TimeBar { height: 3; display: none; background: $panel; }
    TimeBar.on { display: block; }
    TimeBar.low { height: 2; }
    TimeBar.trackless { height: 1; }
    TimeBar Controls { height: 1; }
    TimeBar SeekBar { height: 1fr; padding: 0 1; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__(id="time")
        self._controls = Controls(id="controls")
        self._track = SeekBar()
        self._state = NO_SESSION
        self._drawn = Text()

    def compose(self) -> ComposeResult:
        yield self._controls
        yield self._track

    def show(self, state: TimeBarState) -> None:
        """Show this state."""
        self._state = state
        self.set_class(not state.has_history, "trackless")
        self._draw()
        self._track.show(state)

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        palette: Palette = palette_of(self.app.theme)
        line = draw.controls(self._state, self.size.width, palette)
        if line != self._drawn or line.spans != self._drawn.spans:
            self._drawn = line
            self._controls.update(line)
