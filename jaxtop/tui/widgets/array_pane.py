"""The array under the cursor: its facts, and which device holds which slice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.strip import Strip
from textual.widget import Widget

from jaxtop.tui.draw.array_pane import Pane, pane
from jaxtop.tui.slices import Slices, slices_of

if TYPE_CHECKING:
    from rich.text import Text
    from textual import events

    from jaxtop.model import ArrayView
    from jaxtop.model.arrays.tree import Node
    from jaxtop.tui.draw.ink import Ink


class ArrayPane(Widget):
    """A pane that refreshes only when its lines change. Its last line is about the device under the mouse."""

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._node: Node | None = None
        self._ink: Ink | None = None
        self._note = ""
        self._slices: tuple[object, Slices | None] = (None, None)
        self._pane = Pane()
        self._pointed: int | None = None

    def show(self, node: Node | None, ink: Ink, note: str = "") -> None:
        """Show an array, or the sums of a branch, with the note in the last line."""
        if node is None or self._node is None or node.path != self._node.path:
            self._pointed = None
        self._node, self._ink, self._note = node, ink, note
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        at = event.get_content_offset(self)
        self._point_at(None if at is None else self._pane.device_at(at.x, at.y))

    def on_leave(self) -> None:
        self._point_at(None)

    def _point_at(self, device: int | None) -> None:
        if device != self._pointed:
            self._pointed = device
            self._draw()

    def _slices_of(self, view: ArrayView) -> Slices | None:
        """Return the slices of an array; they are cached until its shape or placement changes."""
        lies = view.shape, view.mesh, view.parts, view.tiles, view.device_ids, view.groups > 1
        if self._slices[0] != lies:
            self._slices = lies, slices_of(view)
        return self._slices[1]

    def _draw(self) -> None:
        if self._ink is None or not self.display:
            return
        width, height = self.content_size
        before, node = self._pane, self._node
        if node is None:
            self._pane = Pane()
        else:
            slices = None if node.view is None else self._slices_of(node.view)
            pointed, note = self._pointed, self._note
            self._pane = pane(node, slices, self._ink, width, height, pointed=pointed, note=note)
        if not _same(before.lines, self._pane.lines):
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width, style = self.size.width, self.rich_style
        if y >= len(self._pane.lines):
            return Strip.blank(width, style)
        line = self._pane.lines[y].copy()
        line.end = ""
        line.stylize_before(line.style)  # render() of a text without spans ignores the style of the text
        return Strip(line.render(self.app.console)).apply_style(style).adjust_cell_length(width, style)


def _same(one: tuple[Text, ...], other: tuple[Text, ...]) -> bool:
    return len(one) == len(other) and all(
        a.plain == b.plain and a.spans == b.spans and a.style == b.style
        for a, b in zip(one, other, strict=True)
    )
