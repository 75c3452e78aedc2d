"""The places of the cells and labels of the mesh: a layout turns the available space into a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.tui.draw.reading import NO_PLACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class CellDetail(IntEnum):
    """How much a cell shows of its device, from most to least."""

    BOX = 0
    CHIP = 1
    PAIR = 2
    CHAR = 3
    HALF = 4
    QUARTER = 5


class Room(NamedTuple):
    """The available size in characters, and the length of the longest id."""

    width: int
    height: int
    id_width: int = 2


class Tile(NamedTuple):
    """The size of a cell, and the gap to the next cell on its line."""

    level: CellDetail
    width: int
    height: int
    gap: int

    def across(self, columns: int) -> int:
        if self.level is CellDetail.QUARTER:
            return (columns + 1) // 2
        return columns * (self.width + self.gap) - self.gap

    def down(self, rows: int) -> int:
        return (rows + 1) // 2 if self.level >= CellDetail.HALF else rows * self.height

    def grown(self, columns: int, rows: int, width: int, height: int) -> Tile:
        """Return the largest tile of this level that leaves room for these columns and rows."""
        if self.level is CellDetail.QUARTER:
            return self
        wide = max(self.width, (width + self.gap) // columns - self.gap)
        tall = self.height if self.level is CellDetail.HALF else max(self.height, height // rows)
        return self._replace(width=wide, height=tall)

    @property
    def shape(self) -> float:
        """How good a cell of this size looks: a character is about half as wide as it is high."""
        return min(self.width / 3, self.height)


class Cell(NamedTuple):
    """A device at a place; `half` is 1 in the lower half of a line, `side` in the right half of a character.

    Labels refer to `row` and `column`.
    """

    device: int
    x: int
    y: int
    half: int
    row: int
    column: int
    side: int = 0


class Label(NamedTuple):
    """A text at a place. It labels the rows, or the columns, from `first` to `last` - 1."""

    x: int
    y: int
    width: int
    text: str
    role: str
    first: int = 0
    last: int = 0


class Block(NamedTuple):
    """The devices of a process, and the names of the process, the longest first."""

    names: tuple[str, ...]
    devices: tuple[int, ...]


class CellRun(NamedTuple):
    """Adjacent cells on a line: the devices from left to right, and those in the other parts of a character.

    The parts are the lower half, the upper right quarter and the lower right quarter.
    """

    x: int
    y: int
    devices: tuple[int, ...]
    lower: tuple[int, ...]
    right: tuple[int, ...]
    lower_right: tuple[int, ...]


@dataclass(frozen=True)
class MeshDrawing:
    """The cells and labels with their places."""

    tile: Tile
    cells: tuple[Cell, ...]
    labels: tuple[Label, ...]
    width: int
    height: int
    # The names of the axes that its rows and columns are, if they are axes.
    rows: str = ""
    columns: str = ""

    @cached_property
    def by_device(self) -> dict[int, Cell]:
        return {cell.device: cell for cell in self.cells if cell.device >= 0}

    @cached_property
    def counts(self) -> Counter[tuple[str, int]]:
        """The number of devices in each row and column."""
        found = Counter(("row", cell.row) for cell in self.by_device.values())
        found.update(("column", cell.column) for cell in self.by_device.values())
        return found

    @cached_property
    def items(self) -> tuple[tuple[CellRun | Label, ...], ...]:
        lines: list[list[CellRun | Label]] = [[] for _ in range(self.height)]
        for label in self.labels:
            lines[label.y].append(label)
        by_line: dict[int, list[Cell]] = {}
        for cell in self.cells:
            by_line.setdefault(cell.y, []).append(cell)
        for y, cells in by_line.items():
            runs = list(_runs(cells, self.tile))
            for line in range(y, y + self.tile.height):
                lines[line].extend(runs)
        return tuple(tuple(sorted(line, key=lambda item: item.x)) for line in lines)

    def lines_of(self, device: int) -> range:
        cell = self.by_device.get(device)
        return range(0) if cell is None else range(cell.y, cell.y + self.tile.height)

    def devices_at(self, x: int, y: int) -> list[int]:
        for item in self.items[y] if 0 <= y < self.height else ():
            if isinstance(item, CellRun) and item.x <= x < item.x + len(item.devices) * self.tile.width:
                place = (x - item.x) // self.tile.width
                return [part[place] for part in item[2:] if part[place] >= 0]
        return []

    @cached_property
    def _ranks(self) -> list[list[tuple[int, int]]]:
        ranks: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for cell in self.by_device.values():
            ranks.setdefault((cell.y, cell.half), []).append((2 * cell.x + cell.side, cell.device))
        return [sorted(ranks[key]) for key in sorted(ranks)]

    @cached_property
    def _rank_of(self) -> dict[int, int]:
        return {device: i for i, rank in enumerate(self._ranks) for _, device in rank}

    def step(self, device: int, dx: int, dy: int) -> int:
        at = self._rank_of[device]
        cell = self.by_device[device]
        x = 2 * cell.x + cell.side
        if dy:
            target = min(len(self._ranks) - 1, max(0, at + dy))
            return (
                device if target == at else min(self._ranks[target], key=lambda place: abs(place[0] - x))[1]
            )
        rank = self._ranks[at]
        place = rank.index((x, device)) + dx
        return rank[min(len(rank) - 1, max(0, place))][1]


def _runs(cells: Sequence[Cell], tile: Tile) -> Iterator[CellRun]:
    columns: dict[int, list[int]] = {}
    for cell in cells:
        # If the number of rows is odd, nothing is below the last one, not even a missing device.
        parts = columns.setdefault(cell.x, [NO_PLACE] * 4)
        parts[cell.half + 2 * cell.side] = cell.device
    touching: list[int] = []
    for x in sorted(columns):
        if touching and x != touching[-1] + tile.width:
            yield _run(touching, cells[0].y, columns)
            touching = []
        touching.append(x)
    if touching:
        yield _run(touching, cells[0].y, columns)


def _run(at: Sequence[int], y: int, columns: dict[int, list[int]]) -> CellRun:
    return CellRun(at[0], y, *zip(*(columns[x] for x in at), strict=True))


# A box of this height has a line for the history; a lower one has room for the value and its bar.
TALL_BOX = 5


# The width of a value in a cell.
VALUE = 6


def tiles(room: Room) -> tuple[tuple[Tile, ...], ...]:
    """Return the least sizes of cells by level, the level that shows most first."""
    texts, longest = room.id_width + VALUE, max(room.id_width, VALUE)
    return (
        (Tile(CellDetail.BOX, max(11, room.id_width + 6, VALUE + 4), 4, 1),),
        (
            Tile(CellDetail.CHIP, texts + 3, 1, 1),
            Tile(CellDetail.CHIP, longest + 2, 2, 1),
        ),
        (Tile(CellDetail.CHIP, VALUE, 1, 1),),
        (Tile(CellDetail.PAIR, 2, 1, 1),),
        (Tile(CellDetail.CHAR, 1, 1, 0),),
        (HALF_TILE,),
        (Tile(CellDetail.QUARTER, 1, 1, 0),),
    )


HALF_TILE = Tile(CellDetail.HALF, 1, 1, 0)
EMPTY_PLAN = MeshDrawing(Tile(CellDetail.BOX, 11, 4, 1), (), (), 0, 0)


# The plans that a layout keeps: a screen compares a few before it takes one.
_KEPT = 8


class DeviceLayout:
    """An arrangement of devices that can be planned for any size. Layouts are compared by identity."""

    def __init__(self, plan: Callable[[Room], MeshDrawing]) -> None:
        self._plan = plan
        self._plans: dict[Room, MeshDrawing] = {}

    def plan(self, room: Room) -> MeshDrawing:
        found = self._plans.get(room)
        if found is None:
            if len(self._plans) >= _KEPT:
                self._plans.clear()
            found = self._plans[room] = self._plan(room)
        return found


NO_LAYOUT = DeviceLayout(lambda _: EMPTY_PLAN)

# Rows of these lengths are easy to count.
NICE = (64, 32, 16, 10, 8, 5, 4, 2)


def cell_at(
    tile: Tile, device: int, corner: tuple[int, int], at: tuple[int, int], names: tuple[int, int]
) -> Cell:
    (x, y), (row, column) = corner, at
    if tile.level is CellDetail.QUARTER:
        return Cell(device, x + column // 2, y + row // 2, row % 2, *names, column % 2)
    x += column * (tile.width + tile.gap)
    if tile.level is CellDetail.HALF:
        return Cell(device, x, y + row // 2, row % 2, *names)
    return Cell(device, x, y + row * tile.height, 0, *names)
