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
from jaxtop.tui.palette import DARK, PALETTES, Palette
from jaxtop.tui.switches import pressed_by

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

NO_TAPE = TimeBarState("", False, 0.0, (0.0, 0.0), has_reel=False)


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
        said = None if binding is None else f"{binding.description} ({self.app.get_key_display(binding)})"
        if said != self.tooltip:
            self.tooltip = said


class SeekBar(Widget):
    """The whole session: a click goes to that time, or to the event marked there; dragging scrubs."""

    class Sought(Message):
        """The user asked for this time."""

        def __init__(self, at: float) -> None:
            super().__init__()
            self.at = at

    def __init__(self) -> None:
        super().__init__(id="track")
        self._tape = NO_TAPE
        # Cached until the overview, the span or the width changes.
        self._glance: tuple[object, object, Glance] = (None, None, Glance())
        self._shown = Text()
        self._held = 0

    def show(self, tape: TimeBarState) -> None:
        """Show this state."""
        self._tape = tape
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width, height = self.content_size
        tape = self._tape
        overview, made_of, found = self._glance
        if overview is not tape.overview or made_of != (tape.span, width):
            found = draw.glance(tape, width)
            self._glance = tape.overview, (tape.span, width), found
        shown = draw.track(tape, found, height, PALETTES.get(self.app.theme, DARK))
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
        self._held = x
        found = draw.events_at(self._tape, x, width)
        self.post_message(self.Sought(found[0].at if found else self._tape.time_at(x, width)))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        event.stop()
        self.release_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        x, width = self._place(event), self.content_size.width
        said = draw.tip(self._tape, x, width)
        if said != self.tooltip:
            self.tooltip = said
        if self.app.mouse_captured is self and event.button and x != self._held:
            self._held = x
            self.post_message(self.Sought(self._tape.time_at(x, width)))

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
        self._tape = NO_TAPE
        self._read = Text()

    def compose(self) -> ComposeResult:
        yield self._controls
        yield self._track

    def show(self, tape: TimeBarState) -> None:
        """Show this state."""
        self._tape = tape
        self.set_class(not tape.has_reel, "trackless")
        self._draw()
        self._track.show(tape)

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        palette: Palette = PALETTES.get(self.app.theme, DARK)
        line = draw.controls(self._tape, self.size.width, palette)
        if line != self._read or line.spans != self._read.spans:
            self._read = line
            self._controls.update(line)
