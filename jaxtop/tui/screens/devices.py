"""The devices: where each stands in the mesh, and what it holds and does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from jaxtop.tui import text
from jaxtop.tui.moment import EMPTY, Moment
from jaxtop.tui.renderables.reading import PAST
from jaxtop.tui.renderables.sparkline import sparkline
from jaxtop.tui.renderables.table import Column, figure, ordinal, words
from jaxtop.tui.screens.device_table import DeviceRow, DeviceScene, DeviceTableView, empty, present
from jaxtop.tui.screens.hosts import state_column
from jaxtop.tui.widgets.filter import FilteredTable

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from jaxtop.cluster import MeshView
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
class Scene(DeviceScene):
    """What the rows of one moment share."""

    axes: Axes

    @cached_property
    def most(self) -> int:
        """The memory of the device that holds most."""
        return max((present(device).used_bytes or 0 for device in self.moment.devices), default=0)


@dataclass(frozen=True, slots=True)
class Row(DeviceRow):
    """A device among the others, and in the mesh."""

    scene: Scene

    def coordinate(self, axis: str) -> int | None:
        """Where it stands on this axis of its run's largest mesh."""
        return self.scene.axes.coordinates.get((self.device.run, axis), _NOWHERE).get(self.device.id)

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


def _coords(row: Row) -> str:
    return text.NA if row.device.coords is None else ",".join(map(str, row.device.coords))


def _watts(value: float | None) -> str:
    return text.NA if value is None else f"{value:.0f}W"


def _degrees(value: float | None) -> str:
    return text.NA if value is None else f"{value:.0f}°C"


def _gauge_colour(row: Row, palette: Palette) -> str | None:
    if row.fill is None or row.device.state in PAST:
        return None
    return palette.warning if (row.device.used_share or 0) >= NEARLY_FULL else palette.theme.primary


def _history_colour(row: Row, palette: Palette) -> str | None:
    return None if row.device.state in PAST else palette.ramp[2]


def _axis(name: str, size: int) -> Column[Row]:
    width = max(min(len(name), 10), len(str(size - 1)))
    return ordinal(f"axis {name}", name, width, lambda row: row.coordinate(name))


def _gauge(title: str) -> Column[Row]:
    def fill(row: Row) -> float | None:
        return row.fill

    return replace(figure("share", title, BAR + 5, fill, gauge, style=_gauge_colour), align="left")


def _history() -> Column[Row]:
    def used(row: Row) -> int | None:
        return row.device.used_bytes

    drawn = Column("history", "memory, recent", HISTORY, "left", used, lambda row: curve(row.history))
    return replace(drawn, style=_history_colour, largest_first=True, searched=False)


def columns_for(scene: Scene) -> tuple[Column[Row], ...]:
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


class DevicesView(DeviceTableView[Row]):
    """One line a device."""

    KEY: ClassVar[str] = "3"
    TITLE: ClassVar[str] = "Devices"

    def __init__(self) -> None:
        super().__init__(columns_for(Scene(EMPTY, Axes([]))))
        self._axes = Axes([])
        self._shape: tuple[object, ...] = ()

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
        rows = [Row(present(device), scene) for device in moment.devices]
        self.table.update_rows(rows, empty(moment))
