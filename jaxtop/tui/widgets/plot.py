"""A plot that handles keys and mouse; it draws with a function of its size that the screen provides."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.text import Text
from textual.binding import Binding
from textual.message import Message
from textual.widget import Widget

from jaxtop.tui.switches import pressed_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.binding import BindingType

    from jaxtop.tui.draw.plot import Frame


class Drawn(NamedTuple):
    """The text to show, the number of lines above the plot, and the frame of the plot."""

    text: Text
    above: int = 0
    frame: Frame | None = None


class Plot(Widget, can_focus=True, inherit_bindings=False):
    """A plot that refreshes only when its text changes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m,right,l", "figure(1)", "Next figure", show=False, key_display="m"),
        Binding("left,h", "figure(-1)", "Previous figure", show=False),
        Binding("tab", "beside(1)", "Next comparison", show=False),
        Binding("shift+tab", "beside(-1)", "Previous comparison", show=False),
        Binding("down,j", "choose(1)", "Next line", show=False),
        Binding("up,k", "choose(-1)", "Previous line", show=False),
        Binding("enter", "open", "Open"),
    ]

    class Asked(Message):
        """The user asked for another figure, line or comparison, or to open the chosen one."""

        def __init__(self, what: str, which: int | str = 0) -> None:
            super().__init__()
            self.what = what
            self.which = which

    class Pointed(Message):
        """The mouse points to a time; None if it is outside the plot."""

        def __init__(self, at: float | None) -> None:
            super().__init__()
            self.at = at

    def __init__(self) -> None:
        super().__init__()
        self._write: Callable[[int, int], Drawn] | None = None
        self._shown = Drawn(Text())
        self._pointed: float | None = None

    def show(self, write: Callable[[int, int], Drawn]) -> None:
        """Set the function that draws the page for a width and a height."""
        self._write = write
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width, height = self.content_size
        if self._write is None or not width:
            return
        before, self._shown = self._shown, self._write(width, height)
        if self._shown.text.plain != before.text.plain or self._shown.text.spans != before.text.spans:
            self.refresh()

    def render(self) -> Text:
        return self._shown.text

    def action_figure(self, by: int) -> None:
        self.post_message(self.Asked("figure", by))

    def action_beside(self, by: int) -> None:
        self.post_message(self.Asked("beside", by))

    def action_choose(self, by: int) -> None:
        self.post_message(self.Asked("choose", by))

    def action_line(self, number: int) -> None:
        """Choose the line whose name was clicked."""
        self.post_message(self.Asked("line", number))

    def action_way(self, name: str) -> None:
        """Choose the comparison that was clicked."""
        self.post_message(self.Asked("way", name))

    def action_open(self) -> None:
        self.post_message(self.Asked("open"))

    async def on_click(self, event: events.Click) -> None:
        """Run the action of the clicked word, as its key does."""
        action = pressed_by(event.style)
        if action is not None:
            event.stop()
            await self.run_action(action)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        at, frame = event.get_content_offset(self), self._shown.frame
        if at is None or frame is None:
            self._point(None)
            return
        x, y = at.x - frame.x, at.y - self._shown.above
        is_inside = 0 <= x < frame.width and 0 <= y < frame.height
        self._point(frame.time_at(x) if is_inside else None)

    def on_leave(self) -> None:
        self._point(None)

    def _point(self, at: float | None) -> None:
        if at != self._pointed:
            self._pointed = at
            self.post_message(self.Pointed(at))
