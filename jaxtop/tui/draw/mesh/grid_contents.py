"""The values on which the lines of the mesh depend, and the lines that change with each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.tui.draw.ink import PEER, SELECTED, Ink
from jaxtop.tui.draw.mesh.layouts import TALL_BOX, CellDetail, Label, MeshDrawing
from jaxtop.tui.draw.sparkline import area

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.model import DeviceView, State
    from jaxtop.tui.draw.reading import MetricReading

# From these heights on a box also has a line with the range of its curve, and one with other figures.
WITH_RANGE, WITH_FACTS = 8, 10


class CellTrend(NamedTuple):
    """Recent values of a device, what they are if they are not those of the metric, and how to write one."""

    values: Sequence[float | None] = ()
    name: str = ""
    write: Callable[[float | None], str] = str


@dataclass(frozen=True)
class GridContents:
    """Everything that the lines depend on."""

    plan: MeshDrawing
    devices: Sequence[DeviceView]
    reading: MetricReading
    ink: Ink
    # The state of each row, if rows are hosts.
    states: Sequence[State] = ()
    selected: int | None = None
    peers: frozenset[int] = field(default_factory=frozenset)
    # The devices that the others wait for.
    late: frozenset[int] = field(default_factory=frozenset)
    id_width: int = 2
    # What a large cell shows of its device: notes for its border, the longest first; its history, given the
    # number of values; and other figures, given the width.
    notes: Callable[[int], Sequence[str]] = lambda _: ()
    history: Callable[[int, int], CellTrend] = lambda _device, _count: CellTrend()
    facts: Callable[[int, int], str] = lambda _device, _width: ""
    # The lines with the history and the other figures of each device, if the cells are tall enough.
    trends: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def is_fine(self) -> bool:
        """Whether cells have texts."""
        return self.plan.tile.level <= CellDetail.CHIP

    @cached_property
    def codes(self) -> list[int]:
        """The codes of the reading, with the marks of the selected device and its peers."""
        codes = list(self.reading.steps if self.is_fine else self.reading.codes)
        for peer in self.peers:
            codes[peer] += PEER
        if self.selected is not None:
            codes[self.selected] = codes[self.selected] % PEER + SELECTED
        return codes

    @cached_property
    def late_bands(self) -> frozenset[tuple[str, int]]:
        """The rows and columns all of whose devices are late, with their roles."""
        if not self.late:
            return frozenset()
        cells = [self.plan.by_device[each] for each in self.late if each in self.plan.by_device]
        found: set[tuple[str, int]] = set()
        for role, number in (("row", 4), ("column", 5)):
            late = Counter(cell[number] for cell in cells)
            found |= {(role, at) for at, count in late.items() if count == self.plan.counts[role, at]}
        return frozenset(found)


def planned(contents: GridContents, plan: MeshDrawing) -> GridContents:
    trends: tuple[tuple[str, ...], ...] = ()
    if plan.tile.height >= TALL_BOX and plan.tile.level is CellDetail.BOX:
        room, height = plan.tile.width - 4, plan.tile.height - 4
        trends = tuple(_trend(contents, device, room, height) for device in range(len(contents.devices)))
    return replace(contents, plan=plan, trends=trends)


@lru_cache(maxsize=1024)
def _curve(values: tuple[float | None, ...], width: int, height: int) -> tuple[str, ...]:
    """Return the lines of a curve. Screens are painted more often than values arrive."""
    if 0 < len(values) < 2 * width:  # a short past fills the width, too
        values = tuple(values[i * len(values) // (2 * width)] for i in range(2 * width))
    return tuple(area(values, width, height).lines)


def _trend(contents: GridContents, device: int, width: int, height: int) -> tuple[str, ...]:
    """Return a curve, its name if that is not the metric, and its range and other figures if they fit."""
    trend = contents.history(device, 2 * width)
    facts = contents.facts(device, width) if height + 4 >= WITH_FACTS else ""
    has_range = height + 4 >= WITH_RANGE
    lines = height - has_range - bool(facts)
    name = f"{trend.name} " if trend.name and not has_range else ""
    curve = list(_curve(tuple(trend.values), width - len(name), lines))
    curve[-1] = name + curve[-1]
    known = [value for value in trend.values if value is not None]
    written = (trend.write(min(known)), trend.write(max(known))) if known else ()
    span = f"{trend.name} {'–'.join(dict.fromkeys(written))}".strip()
    first = (facts.ljust(width),) if facts else ()
    return (
        *first,
        *(line.ljust(width) for line in curve),
        *((f"{span:>{width}.{width}}",) if has_range else ()),
    )


def changed_lines(before: GridContents, after: GridContents) -> set[int] | None:
    plan, fine = after.plan, after.is_fine
    if before.plan is not plan or before.ink is not after.ink:
        return None
    if fine and (before.reading.metric, before.reading.end) != (after.reading.metric, after.reading.end):
        return None
    devices = _differing(before.codes, after.codes)
    if fine:
        devices |= _differing(before.reading.values, after.reading.values)
        devices |= _differing(before.trends, after.trends)
        devices |= before.late ^ after.late
    lines = {line for device in devices for line in plan.lines_of(device)}
    if before.states != after.states or before.selected != after.selected or before.late != after.late:
        lines.update(
            label.y for label in plan.labels if label_inputs(before, label) != label_inputs(after, label)
        )
    return lines


def _differing(before: Sequence[object], after: Sequence[object]) -> set[int]:
    if before == after:
        return set()
    return {i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}


def label_inputs(contents: GridContents, label: Label) -> tuple[bool, Sequence[State], bool]:
    """Return what a label depends on: whether the selected device is in it, its states, and who is late."""
    if label.role in ("axis", "frame"):
        return False, (), False
    kind = "column" if label.role == "column" else "row"
    cell = contents.plan.by_device.get(contents.selected) if contents.selected is not None else None
    at = None if cell is None else (cell.row if kind == "row" else cell.column)
    is_late = any((kind, each) in contents.late_bands for each in range(label.first, label.last))
    states = contents.states[label.first : label.last] if kind == "row" else ()
    return at is not None and label.first <= at < label.last, states, is_late
