"""The devices: where each stands in the mesh, and what it holds and does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from jaxtop.cluster import DeviceView, MeshView, memory_history
from jaxtop.tui import text
from jaxtop.tui.moment import EMPTY, Moment, Selection
from jaxtop.tui.renderables.reading import OVER, PAST
from jaxtop.tui.renderables.sparkline import sparkline
from jaxtop.tui.renderables.table import Column, figure, ordinal, words
from jaxtop.tui.screens.base import View
from jaxtop.tui.screens.hosts import state_column
from jaxtop.tui.widgets.filter import FilteredTable
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from jaxtop.tui.palette import Palette

BAR = 6
HISTORY = 16
# Past this share of its limit a device is about to run out of memory.
NEARLY_FULL = 0.9


class Axes:
    """The axes of the largest mesh of each run, and where each device stands on them."""

    def __init__(self, meshes: list[MeshView]) -> None:
        self.meshes = meshes
        self.sizes: dict[str, int] = {}
        self.coordinates: dict[tuple[str, str], dict[int, int]] = {}
        # A run's largest mesh comes first.
        for mesh in {mesh.run: mesh for mesh in reversed(meshes)}.values():
            stride = len(mesh.device_ids)
            for name, size in mesh.axes:
                stride //= size
                at = {each: i // stride % size for i, each in enumerate(mesh.device_ids)}
                self.coordinates[mesh.run, name] = at
                self.sizes[name] = max(size, self.sizes.get(name, 0))


_NOWHERE: dict[int, int] = {}


@dataclass(frozen=True)
class Scene:
    """What the rows of one moment share."""

    moment: Moment
    axes: Axes

    @cached_property
    def run_names(self) -> dict[str, str | None]:
        return {run.id: run.name for run in self.moment.runs}

    @cached_property
    def has_limits(self) -> bool:
        return any(device.limit_bytes for device in self.moment.devices)

    @cached_property
    def most(self) -> int:
        """The memory of the device that holds most."""
        present = (device for device in self.moment.devices if device.state not in OVER)
        return max((device.used_bytes or 0 for device in present), default=0)


class DeviceRow(NamedTuple):
    """A device among the others."""

    device: DeviceView
    scene: Scene

    @property
    def place(self) -> tuple[str, int]:
        """Its id among those of all runs."""
        return self.device.run, self.device.id

    @property
    def run(self) -> str:
        return self.scene.run_names.get(self.device.run) or self.device.run

    def coordinate(self, axis: str) -> int | None:
        """Where it stands on this axis of its run's largest mesh."""
        return self.scene.axes.coordinates.get((self.device.run, axis), _NOWHERE).get(self.device.id)

    @property
    def history(self) -> list[int | None]:
        """Its memory over the last samples."""
        return memory_history(self.scene.moment.cluster, self.device.agent, self.device.position)

    @property
    def fill(self) -> float | None:
        """How long its bar is: of the limit where limits are known, else of the most that a device holds."""
        if self.scene.has_limits:
            return self.device.used_share
        if self.device.used_bytes is None or not self.scene.most:
            return None
        return self.device.used_bytes / self.scene.most


def gauge(share: float | None) -> str:
    """A share in percent and as a bar, to half a character."""
    if share is None:
        return f"{text.NA:>4}"
    halves = max(0, min(BAR * 2, round(share * BAR * 2)))
    return f"{text.share(share):>4} {'━' * (halves // 2)}{'╸' if halves % 2 else ''}"


def curve(values: list[int | None]) -> str:
    """Values over time; without the full block, so that the rows stay apart."""
    if all(value is None for value in values):
        return text.NA
    return sparkline(values, HISTORY).replace("█", "▇")


def without_figures(device: DeviceView) -> DeviceView:
    """A device of a process that is no more: what it last said is no longer true."""
    return replace(
        device, used_bytes=None, peak_bytes=None, utilization=None, power_w=None, temperature_c=None
    )


def _coords(row: DeviceRow) -> str:
    return text.NA if row.device.coords is None else ",".join(map(str, row.device.coords))


def _watts(value: float | None) -> str:
    return text.NA if value is None else f"{value:.0f}W"


def _degrees(value: float | None) -> str:
    return text.NA if value is None else f"{value:.0f}°C"


def _gauge_colour(row: DeviceRow, palette: Palette) -> str | None:
    if row.fill is None or row.device.state in PAST:
        return None
    return palette.warning if (row.device.used_share or 0) >= NEARLY_FULL else palette.theme.primary


def _history_colour(row: DeviceRow, palette: Palette) -> str | None:
    return None if row.device.state in PAST else palette.ramp[2]


def _axis(name: str, size: int) -> Column[DeviceRow]:
    width = max(min(len(name), 10), len(str(size - 1)))
    return ordinal(f"axis {name}", name, width, lambda row: row.coordinate(name))


def _gauge(title: str) -> Column[DeviceRow]:
    def fill(row: DeviceRow) -> float | None:
        return row.fill

    return replace(figure("share", title, BAR + 5, fill, gauge, style=_gauge_colour), align="left")


def _history() -> Column[DeviceRow]:
    def used(row: DeviceRow) -> int | None:
        return row.device.used_bytes

    drawn = Column("history", "memory, recent", HISTORY, "left", used, lambda row: curve(row.history))
    return replace(drawn, style=_history_colour, largest_first=True, searched=False)


def columns_for(scene: Scene) -> tuple[Column[DeviceRow], ...]:
    """A column for each axis of the mesh, and what else is known of a device."""
    return (
        Column("id", "id", 5, "right", lambda row: row.place, lambda row: str(row.device.id)),
        words("host", "host", 12, lambda row: row.device.hostname, flexible=True),
        *((words("run", "run", 12, lambda row: row.run),) if len(scene.moment.runs) > 1 else ()),
        ordinal("process", "proc", 4, lambda row: row.device.process_index),
        *(_axis(name, size) for name, size in scene.axes.sizes.items()),
        figure("memory", "memory", 6, lambda row: row.device.used_bytes, text.size),
        _gauge("of limit" if scene.has_limits else "of most"),
        state_column(lambda row: row.device.state),
        figure("utilisation", "util", 4, lambda row: row.device.utilization, text.share),
        figure("power", "power", 5, lambda row: row.device.power_w, _watts),
        figure("temperature", "temp", 5, lambda row: row.device.temperature_c, _degrees),
        figure("peak", "peak", 6, lambda row: row.device.peak_bytes, text.size),
        figure("limit", "limit", 6, lambda row: row.device.limit_bytes, text.size),
        _history(),
        words("source", "source", 9, lambda row: row.device.memory_source),
        ordinal("local", "local", 5, lambda row: row.device.local_id),
        Column("coords", "coords", 8, "left", lambda row: row.device.coords, _coords),
        words("kind", "kind", 12, lambda row: row.device.kind, flexible=True),
    )


def tone(row: DeviceRow, palette: Palette) -> str | None:
    """What is past is drawn back."""
    return palette.muted if row.device.state in PAST else None


def empty(moment: Moment) -> str:
    """Why there are no devices."""
    if not moment.hosts:
        return "no devices yet: no host has been heard"
    return "no devices yet: JAX has not started its devices on any host"


class DevicesView(View):
    """One line a device."""

    KEY: ClassVar[str] = "3"
    TITLE: ClassVar[str] = "Devices"

    def __init__(self) -> None:
        super().__init__()
        self._axes = Axes([])
        self._shape: tuple[object, ...] = ()
        self.table: Table[DeviceRow] = Table(
            columns_for(Scene(EMPTY, self._axes)),
            lambda row: row.device.key,
            noun="device",
            pinned=2,
            sort="id",
            tone=tone,
        )

    def compose(self) -> ComposeResult:
        yield FilteredTable(self.table)

    def show(self, moment: Moment) -> None:
        super().show(moment)
        if self._axes.meshes != moment.meshes:
            self._axes = Axes(moment.meshes)
        scene = Scene(moment, self._axes)
        shape = (self._axes.sizes, scene.has_limits, len(moment.runs) > 1)
        if self._shape != shape:
            self._shape = shape
            self.table.update_columns(columns_for(scene))
        rows = [
            DeviceRow(device if device.state not in OVER else without_figures(device), scene)
            for device in moment.devices
        ]
        self.table.update_rows(rows, empty(moment))

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
