"""The pane with the details of one array, or of a branch of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.tui.core.slices import ArraySlices, slices_of
from jaxtop.tui.draw.panes.array import Pane, pane
from jaxtop.tui.draw.panes.facts import joined
from jaxtop.tui.widgets.detail import Detail

if TYPE_CHECKING:
    from rich.text import Text
    from textual import events

    from jaxtop.model import ArrayView
    from jaxtop.model.arrays.tree import Node
    from jaxtop.tui.draw.ink import Ink


class ArrayPane(Detail):
    """The pane. Its last line is about the device under the mouse."""

    def __init__(self) -> None:
        super().__init__(id="array")
        self._node: Node | None = None
        self._note = ""
        self._slices: tuple[object, ArraySlices | None] = (None, None)
        self._pane = Pane()
        self._pointed: int | None = None

    def show_node(self, node: Node | None, ink: Ink, note: str = "") -> None:
        """Show an array, or the sums of a branch, with the note in the last line."""
        if node is None or self._node is None or node.path != self._node.path:
            self._pointed = None
        self._node, self._note = node, note
        self.show(lambda width, height: self._text(ink, width, height))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        at = event.get_content_offset(self)
        self._point_at(None if at is None else self._pane.device_at(at.x, at.y))

    def on_leave(self) -> None:
        self._point_at(None)

    def _point_at(self, device: int | None) -> None:
        if device != self._pointed:
            self._pointed = device
            self._draw()

    def _slices_of(self, view: ArrayView) -> ArraySlices | None:
        """Return the slices of an array; they are cached until its shape or placement changes."""
        lies = view.shape, view.mesh, view.parts, view.tiles, view.device_ids, view.groups > 1
        if self._slices[0] != lies:
            self._slices = lies, slices_of(view)
        return self._slices[1]

    def _text(self, ink: Ink, width: int, height: int) -> Text:
        node, self._pane = self._node, Pane()
        if node is not None:
            slices = None if node.view is None else self._slices_of(node.view)
            self._pane = pane(node, slices, ink, width, height, pointed=self._pointed, note=self._note)
        return joined(self._pane.lines)
