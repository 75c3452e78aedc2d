"""The columns of the memory screen: a bar, the figures of the allocator, and the size of each part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.model import MEMORY, PARTS, MemoryView, Part, recent
from jaxtop.model.figures import ALLOCATOR
from jaxtop.tui.columns.devices import DeviceRow, DeviceRowContext, id_column
from jaxtop.tui.columns.figures import curve
from jaxtop.tui.columns.hosts import state_column
from jaxtop.tui.draw.stacked_bar import stacked
from jaxtop.tui.draw.table import Column, figure_column, words_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.tui.core.palette import Palette
    from jaxtop.tui.draw.bars import Segment

HISTORY = 16
# The titles of columns. A tilde marks an estimate.
TITLES = {
    Part.PARAMETERS: "params",
    Part.OPTIMIZER: "optim",
    Part.GRADIENTS: "grads",
    Part.OTHER: "other",
    Part.TEMPORARIES: "temps~",
    Part.UNEXPLAINED: "unexpl",
    Part.RESERVED: "reserv",
}
SHORTEST_BAR = 24


@dataclass(frozen=True)
class MemoryRowContext(DeviceRowContext):
    """The data that all rows of one moment share."""

    views: list[MemoryView]
    # Without colours.
    plain: bool = False

    @cached_property
    def used(self) -> tuple[int | None, ...]:
        """What each device uses; thousands of devices are asked only once."""
        return tuple([view.device.used_bytes for view in self.views])

    @cached_property
    def has_allocators(self) -> bool:
        return any(view.device.memory_source == ALLOCATOR for view in self.views)

    @cached_property
    def end(self) -> int:
        """The end of the bars' scale: the largest limit, else the largest memory use."""
        if self.has_limits:
            return max(view.device.limit_bytes or 0 for view in self.views)
        return max(
            map(max, (sum(view.bytes) for view in self.views), (held or 0 for held in self.used)), default=0
        )


@dataclass(slots=True)
class MemoryRow(DeviceRow):
    """One device and the parts of its memory."""

    context: MemoryRowContext
    view: MemoryView


def _bar(width: int) -> Column[MemoryRow]:
    def read(row: MemoryRow) -> float | None:
        return row.device.used_share if row.context.has_limits else row.device.used_bytes

    def draw(row: MemoryRow, width: int, palette: Palette) -> Sequence[Segment]:
        if row.device.used_bytes is None:
            return [(units.NA, palette.muted, None)]
        return stacked(row.view.bytes, row.context.end, width, palette.theme.name, plain=row.context.plain)

    column: Column[MemoryRow] = Column("bar", "parts", width, "left", read, lambda _: "", flexible=True)
    return replace(column, largest_first=True, searched=False, draw=draw)


def _used_lately(row: MemoryRow) -> list[float | None]:
    return recent(row.context.moment.cluster, row.device.agent, MEMORY, row.device.position)


def _history() -> Column[MemoryRow]:
    def used(row: MemoryRow) -> int | None:
        return row.device.used_bytes

    def write(row: MemoryRow) -> str:
        values = _used_lately(row)
        known = [value for value in values if value is not None]
        drawn = curve(values, HISTORY)
        return f"{drawn} {units.size(max(known)):>6}" if known else units.NA

    def style(row: MemoryRow, palette: Palette) -> str | None:
        return palette.trend if any(_used_lately(row)) else None

    drawn = Column("history", "recent and peak", HISTORY + 7, "left", used, write, style)
    return replace(drawn, largest_first=True, searched=False)


def _part(part: Part) -> Column[MemoryRow]:
    title = TITLES.get(part, part)
    return figure_column(part, title, max(6, len(title)), lambda row: row.view.bytes_of(part), units.size)


def columns_for(context: MemoryRowContext, width: int) -> tuple[Column[MemoryRow], ...]:
    """Return the columns: the bar, the allocator's figures if there are any, and the size of each part."""
    limit: Column[MemoryRow] = figure_column(
        "limit", "limit", 6, lambda row: row.device.limit_bytes, units.size
    )
    of_allocator: tuple[Column[MemoryRow], ...] = (
        figure_column("peak", "peak", 6, lambda row: row.device.peak_bytes, units.size),
        figure_column("largest", "largest free", 12, lambda row: row.view.largest_free_bytes, units.size),
    )
    counted = PARTS[: PARTS.index(Part.TEMPORARIES)]
    parts = PARTS if context.has_allocators else (*counted, *((Part.FREE,) if context.has_limits else ()))
    return (
        id_column(),
        words_column("host", "host", 8, lambda row: row.device.hostname),
        *((words_column("run", "run", 12, lambda row: row.run),) if len(context.moment.runs) > 1 else ()),
        figure_column("used", "used", 6, lambda row: row.device.used_bytes, units.size),
        _bar(max(SHORTEST_BAR, width // 4)),
        *((limit,) if context.has_limits else ()),
        *(of_allocator if context.has_allocators else ()),
        _history(),
        *map(_part, parts),
        state_column(lambda row: row.state),
    )
