"""The mesh: one cell per device, as large as the space allows; one device is selected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from jaxtop.tui.draw.mesh.cells import paint
from jaxtop.tui.draw.mesh.grid_contents import GridContents, changed_lines, planned
from jaxtop.tui.draw.mesh.layouts import EMPTY_PLAN, NO_LAYOUT, DeviceLayout, MeshDrawing, Room

if TYPE_CHECKING:
    from textual import events


# The least size to plan for: before the first layout the widget has none.
MIN_SIZE = Size(20, 2)


class MeshGrid(ScrollView, can_focus=True, inherit_bindings=False):
    """A widget that draws scenes and posts the user's moves. The screen decides which device is selected."""

    DEFAULT_CSS = """
    MeshGrid { height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1, 0)", "Device to the left", show=False),
        Binding("down,j", "move(0, 1)", "Device below", show=False),
        Binding("up,k", "move(0, -1)", "Device above", show=False),
        Binding("right,l", "move(1, 0)", "Device to the right", show=False),
        Binding("g", "end(0)", "First device", show=False),
        Binding("G", "end(-1)", "Last device", show=False),
        Binding("enter", "open", "Open", show=False),
    ]

    @dataclass
    class Moved(Message):
        """The user moved to a device, given by its position among the devices shown."""

        device: int

    class Opened(Message):
        """The user opened the selected device."""

    @dataclass
    class Pointed(Message):
        """The mouse is over another device, or over none."""

        device: int | None

    def __init__(self) -> None:
        super().__init__()
        self._layout_shown = NO_LAYOUT
        self._room = Room(0, 0)
        self._contents: GridContents | None = None
        self._strips: dict[int, Strip] = {}
        self._pointed: int | None = None

    @property
    def plan(self) -> MeshDrawing:
        return EMPTY_PLAN if self._contents is None else self._contents.plan

    def show(self, layout: DeviceLayout, contents: GridContents) -> None:
        """Draw this contents. The plan is made here, because only the widget knows its size."""
        before = self._contents
        room = self._room_for(contents)
        if before is not None and layout is self._layout_shown and room == self._room:
            plan = before.plan
        else:
            self._layout_shown, self._room = layout, room
            plan = layout.plan(room)
            if plan.height > room.height:
                plan = layout.plan(room._replace(width=room.width - 1))  # the scroll bar takes a column
        self._contents = after = planned(contents, plan)
        if self.virtual_size != (size := Size(plan.width, plan.height)):
            self.virtual_size = size
        self._repaint(None if before is None else changed_lines(before, after))
        if before is None or before.plan is not plan or before.selected != after.selected:
            self._keep_in_sight()

    def _room_for(self, contents: GridContents) -> Room:
        # The outer size does not depend on the scroll bar: with the inner one, the bar could toggle forever.
        width, height = self.outer_size
        return Room(max(MIN_SIZE.width, width), max(MIN_SIZE.height, height), contents.id_width)

    def _repaint(self, lines: set[int] | None) -> None:
        if lines is None:
            self._strips.clear()
            self.refresh()
            return
        for y in lines:
            self._strips.pop(y, None)
        if lines:
            top, (width, height) = self.scroll_offset.y, self.size
            self.refresh(*(Region(0, y - top, width, 1) for y in lines if 0 <= y - top < height))

    def _keep_in_sight(self) -> None:
        contents = self._contents
        if (
            contents is None
            or contents.selected is None
            or (lines := contents.plan.lines_of(contents.selected)) == range(0)
        ):
            return
        self.scroll_to_region(
            Region(0, lines.start, 1, len(lines)), animate=False, force=True, immediate=True, x_axis=False
        )

    def on_resize(self) -> None:
        if self._contents is not None:
            self.show(self._layout_shown, self._contents)

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = self._painted(y)
        return strip

    def _painted(self, y: int) -> Strip:
        contents = self._contents
        if contents is None:
            return Strip([])
        if not contents.plan.cells:
            return Strip([Segment(" no devices yet", contents.ink.note)] if y == 0 else [])
        strip = paint(contents, y)
        return strip.apply_style(self.rich_style) if contents.ink.plain else strip

    def action_move(self, across: int, down: int) -> None:
        contents = self._contents
        if contents is None or contents.selected not in contents.plan.by_device:
            self.action_end(0)
        elif (target := contents.plan.step(contents.selected, across, down)) != contents.selected:
            self.post_message(self.Moved(target))

    def action_end(self, end: int) -> None:
        devices = list(self.plan.by_device)
        if devices:
            self.post_message(self.Moved(devices[end]))

    def action_open(self) -> None:
        if self._contents is not None and self._contents.selected is not None:
            self.post_message(self.Opened())

    def _devices_under(self, event: events.MouseEvent) -> list[int]:
        offset = event.get_content_offset(self)
        return [] if offset is None else self.plan.devices_at(offset.x, offset.y + self.scroll_offset.y)

    def on_click(self, event: events.Click) -> None:
        """Select a device, or open the selected one. If two devices share a character, clicks alternate."""
        devices = self._devices_under(event)
        if not devices or self._contents is None:
            return
        others = [device for device in devices if device != self._contents.selected]
        if event.chain == 2 or not others:
            self.action_open()
        else:
            self.post_message(self.Moved(others[0]))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        devices = self._devices_under(event)
        self._point_at(devices[0] if devices else None)

    def on_leave(self) -> None:
        self._point_at(None)

    def _point_at(self, device: int | None) -> None:
        if device != self._pointed:
            self._pointed = device
            self.post_message(self.Pointed(device))
