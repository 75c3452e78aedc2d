"""The widget of the plot: its keys, and where the mouse points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message

from jaxtop.tui.draw.plot import DrawnPlot
from jaxtop.tui.draw.switches import run_pressed
from jaxtop.tui.widgets.detail import Detail

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events


class Plot(Detail, can_focus=True, inherit_bindings=False):
    """A plot that refreshes only when its text changes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m,right,l", "ask('figure', 1)", "Next figure", show=False, key_display="m"),
        Binding("left,h", "ask('figure', -1)", "Previous figure", show=False),
        Binding("slash", "app.find_figure", "Find", key_display="/"),
        Binding("tab", "ask('beside', 1)", "Next comparison", show=False),
        Binding("shift+tab", "ask('beside', -1)", "Previous comparison", show=False),
        Binding("down,j", "ask('choose', 1)", "Next line", show=False),
        Binding("up,k", "ask('choose', -1)", "Previous line", show=False),
        Binding("enter", "ask('open')", "Open"),
    ]

    @dataclass
    class Asked(Message):
        """The user asked for another figure, line or comparison, or to open the chosen one."""

        what: str
        which: int | str = 0

    @dataclass
    class Pointed(Message):
        """The mouse points to a time; None if it is outside the plot."""

        at: float | None

    def __init__(self) -> None:
        super().__init__()
        self._drawn = DrawnPlot(Text())
        self._pointed: float | None = None

    def show_page(self, draw: Callable[[int, int], DrawnPlot]) -> None:
        def write(width: int, height: int) -> Text:
            self._drawn = draw(width, height)
            return self._drawn.text

        self.show(write)

    def action_ask(self, what: str, which: int | str = 0) -> None:
        self.post_message(self.Asked(what, which))

    async def on_click(self, event: events.Click) -> None:
        await run_pressed(event, self)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        at, frame = event.get_content_offset(self), self._drawn.frame
        if at is None or frame is None:
            self._point(None)
            return
        x, y = at.x - frame.x, at.y - self._drawn.above
        is_inside = 0 <= x < frame.width and 0 <= y < frame.height
        self._point(frame.time_at(x) if is_inside else None)

    def on_leave(self) -> None:
        self._point(None)

    def _point(self, at: float | None) -> None:
        if at != self._pointed:
            self._pointed = at
            self.post_message(self.Pointed(at))
