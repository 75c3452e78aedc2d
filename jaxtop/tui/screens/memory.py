"""The memory: what takes it on each device, what grows, and what a program would still need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.text import Text
from textual.containers import Horizontal
from textual.widgets import Static

from jaxtop.cluster import (
    PARTS,
    KnownMemory,
    MemoryView,
    Part,
    growers,
    memory,
    memory_history,
    memory_total,
)
from jaxtop.tui import text
from jaxtop.tui.moment import EMPTY, Selection
from jaxtop.tui.palette import DARK, PALETTES
from jaxtop.tui.renderables.reading import OVER, PAST
from jaxtop.tui.renderables.stacked import bar, legend, stacked
from jaxtop.tui.renderables.table import Column, figure, words
from jaxtop.tui.screens.base import View
from jaxtop.tui.screens.devices import curve, empty, without_figures
from jaxtop.tui.screens.hosts import state_column
from jaxtop.tui.widgets.filter import FilteredTable
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.widget import Widget

    from jaxtop.cluster import DeviceView, Grower, ProgramView
    from jaxtop.tui.moment import Moment
    from jaxtop.tui.palette import Palette
    from jaxtop.tui.renderables.stacked import Segment

HISTORY = 16
# The titles of columns; what is an estimate is marked.
_TITLES = {
    Part.PARAMETERS: "params",
    Part.OPTIMIZER: "optim",
    Part.GRADIENTS: "grads",
    Part.OTHER: "other",
    Part.TEMPORARIES: "temps~",
    Part.UNEXPLAINED: "unexpl",
    Part.RESERVED: "reserv",
}
SHORTEST_BAR = 24
# With fewer lines than this the devices need them all.
ROOM_BELOW = 17


@dataclass(frozen=True)
class Scene:
    """What the rows of one moment share."""

    moment: Moment
    views: list[MemoryView]

    @cached_property
    def run_names(self) -> dict[str, str | None]:
        return {run.id: run.name for run in self.moment.runs}

    @cached_property
    def has_limits(self) -> bool:
        return any(view.device.limit_bytes for view in self.views)

    @cached_property
    def end(self) -> int:
        """Where the bars end: at the largest limit, else at the device that holds most."""
        if self.has_limits:
            return max(view.device.limit_bytes or 0 for view in self.views)
        return max((max(sum(view.bytes), view.device.used_bytes or 0) for view in self.views), default=0)


class MemoryRow(NamedTuple):
    """A device among the others."""

    view: MemoryView
    scene: Scene

    @property
    def device(self) -> DeviceView:
        return self.view.device

    @property
    def place(self) -> tuple[str, int]:
        return self.device.run, self.device.id

    @property
    def run(self) -> str:
        return self.scene.run_names.get(self.device.run) or self.device.run

    @property
    def history(self) -> list[int | None]:
        return memory_history(self.scene.moment.cluster, self.device.agent, self.device.position)


def _bar(width: int) -> Column[MemoryRow]:
    def read(row: MemoryRow) -> float | None:
        return row.device.used_share if row.scene.has_limits else row.device.used_bytes

    def draw(row: MemoryRow, width: int, palette: Palette) -> Sequence[Segment]:
        known = row.device.used_bytes is not None
        return stacked(row.view.bytes if known else None, row.scene.end, width, palette)

    drawn: Column[MemoryRow] = Column("bar", "what it holds", width, "left", read, lambda _: "")
    drawn = replace(drawn, flexible=True)
    return replace(drawn, largest_first=True, searched=False, draw=draw)


def _history() -> Column[MemoryRow]:
    def used(row: MemoryRow) -> int | None:
        return row.device.used_bytes

    def write(row: MemoryRow) -> str:
        values = row.history
        known = [value for value in values if value is not None]
        return f"{curve(values)} {text.size(max(known)):>6}" if known else text.NA

    drawn = Column("history", "recent, and its peak", HISTORY + 7, "left", used, write)
    return replace(drawn, largest_first=True, searched=False)


def _part(part: Part) -> Column[MemoryRow]:
    title = _TITLES.get(part, part)
    return figure(part, title, max(6, len(title)), lambda row: row.view.of(part), text.size)


def columns_for(scene: Scene, width: int) -> tuple[Column[MemoryRow], ...]:
    """The bar, the allocator's figures where there are some, and the parts in figures."""
    limits: tuple[Column[MemoryRow], ...] = (
        figure("limit", "limit", 6, lambda row: row.device.limit_bytes, text.size),
        figure("peak", "peak", 6, lambda row: row.device.peak_bytes, text.size),
        figure("largest", "largest free", 12, lambda row: row.view.largest_free_bytes, text.size),
    )
    parts = PARTS if scene.has_limits else PARTS[: PARTS.index(Part.TEMPORARIES)]
    return (
        Column("id", "id", 5, "right", lambda row: row.place, lambda row: str(row.device.id)),
        words("host", "host", 8, lambda row: row.device.hostname),
        *((words("run", "run", 12, lambda row: row.run),) if len(scene.moment.runs) > 1 else ()),
        figure("used", "used", 6, lambda row: row.device.used_bytes, text.size),
        _bar(max(SHORTEST_BAR, width // 4)),
        *(limits if scene.has_limits else ()),
        _history(),
        *map(_part, parts),
        state_column(lambda row: row.device.state),
    )


def tone(row: MemoryRow, palette: Palette) -> str | None:
    """What is past is drawn back."""
    return palette.muted if row.device.state in PAST else None


def summary(scene: Scene, width: int, palette: Palette) -> Text:
    """The cluster as one bar, what it says in words, and the legend."""
    views = [view for view in scene.views if view.device.used_bytes is not None]
    if not views:
        return Text()
    total, used = memory_total(views), sum(view.device.used_bytes or 0 for view in views)
    fullest = max(views, key=lambda view: view.device.used_bytes or 0).device
    held = f"{len(views):,} devices hold {text.size(used)}"
    most = f"most device {fullest.id}: {text.size(fullest.used_bytes)}"
    if scene.has_limits:
        end = sum(view.device.limit_bytes or 0 for view in views)
        said = f"{held} of {text.size(end)} ({text.share(used / end)}), {most}; by their allocators"
    else:
        end = sum(total)
        said = f"{held}, {most}; no allocator: live arrays alone"
    head = Text(text.printable(said), no_wrap=True, overflow="ellipsis", end="")
    head.truncate(width, overflow="ellipsis")
    return Text("\n").join([head, bar(total, end, width, palette), *legend(total, width, palette)])


def growing(found: list[Grower], height: int, palette: Palette) -> Text:
    """What grows, fastest first."""
    lines = [Text("GROWING on a device", f"bold {palette.muted}", end="")]
    for each in found[: max(0, height - 1)]:
        line = Text(f"+{text.size(each.bytes_per_minute)}/min", palette.warning, no_wrap=True, end="")
        name = f"  {each.name or 'unnamed'}  {text.size(each.bytes_per_device)}"
        line.append(text.printable(name), palette.theme.foreground)
        line.append(text.printable(f"  {each.created or ''}"), palette.muted)
        lines.append(line)
    if not found:
        lines.append(Text("nothing, as far as is known", palette.muted, end=""))
    return Text("\n").join(lines)


def headroom(programs: list[ProgramView], height: int, palette: Palette) -> Text:
    """For each program, what a launch adds to its arguments against what is free."""
    known = [view for view in programs if view.adds_bytes is not None]
    known.sort(key=lambda view: -(view.adds_bytes or 0))
    lines = [Text("HEADROOM for a launch", f"bold {palette.muted}", end="")]
    for view in known[: max(0, height - 1)]:
        runs, is_large = bool(view.launches_per_second), (view.headroom_bytes or 0) < 0
        line = Text(no_wrap=True, end="")
        if is_large and not runs:  # what runs does fit: the memory of its last launch may be in use still
            line.append("▲ ", palette.bad)
        line.append(text.printable(f"{view.function} +{text.size(view.adds_bytes)}"))
        free = "an unknown limit" if view.free_bytes is None else f"{text.size(view.free_bytes)} free"
        line.append(f" of {free}", palette.muted)
        if runs:
            line.append(" · runs", palette.good)
        lines.append(line)
    if not known:
        lines.append(Text("no program is known", palette.muted, end=""))
    return Text("\n").join(lines)


class MemoryScreenView(View):
    """The cluster as one bar, one line a device, and below what grows and what still fits."""

    KEY: ClassVar[str] = "5"
    TITLE: ClassVar[str] = "Memory"

    DEFAULT_CSS = """
    MemoryScreenView #summary { height: auto; padding: 0 2; }
    MemoryScreenView #below { height: 22%; min-height: 4; max-height: 12; background: $surface; }
    MemoryScreenView.low #below { display: none; }
    MemoryScreenView #below Static { width: 1fr; height: 1fr; padding: 0 2; text-wrap: nowrap;
                                    text-overflow: ellipsis; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._known = KnownMemory()
        self._shape: tuple[object, ...] = ()
        self._summary = Static(id="summary")
        self._growing = Static(id="growing")
        self._headroom = Static(id="headroom")
        self._read: dict[Static, Text] = {}
        self._scene = Scene(EMPTY, [])
        self.table: Table[MemoryRow] = Table(
            columns_for(self._scene, 0),
            lambda row: row.device.key,
            noun="device",
            pinned=2,
            sort="id",
            tone=tone,
        )

    def compose(self) -> ComposeResult:
        yield self._summary
        yield FilteredTable(self.table)
        with Horizontal(id="below"):
            yield self._growing
            yield self._headroom

    def show(self, moment: Moment) -> None:
        super().show(moment)
        present = (each if each.state not in OVER else without_figures(each) for each in moment.devices)
        scene = self._scene = Scene(moment, memory(moment.cluster, present, self._known))
        self._fit_columns()
        self.table.update_rows([MemoryRow(view, scene) for view in scene.views], empty(moment))
        self._draw()

    def _fit_columns(self) -> None:
        scene, width = self._scene, self.size.width
        shape = (scene.has_limits, len(scene.moment.runs) > 1, width)
        if self._shape != shape:
            self._shape = shape
            self.table.update_columns(columns_for(scene, width))

    def _draw(self) -> None:
        if not self.size.width:  # not laid out yet; a resize comes
            return
        palette, moment = PALETTES.get(self.app.theme, DARK), self.moment
        self._tell(self._summary, summary(self._scene, max(0, self.size.width - 4), palette))
        if not self.has_class("low"):
            height = self._growing.size.height
            found = growers(moment.cluster, self._known)
            self._tell(self._growing, growing(found, height, palette))
            self._tell(self._headroom, headroom(moment.programs, height, palette))

    def _tell(self, where: Static, words: Text) -> None:
        read = self._read.get(where)
        if read is None or words != read or words.spans != read.spans:
            self._read[where] = words
            where.update(words)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < ROOM_BELOW, "low")
        self._fit_columns()
        self.call_after_refresh(self._draw)

    def select(self, selection: Selection) -> None:
        """The device, or the first one of the host."""
        super().select(selection)
        of_host = (device.key for device in self.moment.devices if device.agent == selection.agent)
        self.table.select(selection.device_key or next(of_host, None))

    @property
    def first_focus(self) -> Widget:
        return self.table

    def on_table_moved(self, message: Table.Moved) -> None:
        message.stop()
        self.selection = Selection(*message.row.device.key)
        self.post_message(View.Selected(self.selection))

    def on_table_chosen(self, message: Table.Chosen) -> None:
        """Its cell in the mesh."""
        message.stop()
        self.selection = Selection(*message.row.device.key)
        self.post_message(View.Drilled(self.selection, "1"))
