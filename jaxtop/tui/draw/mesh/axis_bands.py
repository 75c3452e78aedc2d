"""Two axes as rows and columns with indices; an axis that is too long is cut into bands."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.tui.draw.mesh.layouts import (
    HALF_TILE,
    NICE,
    Cell,
    CellDetail,
    Label,
    MeshDrawing,
    Room,
    Tile,
    cell_at,
    tiles,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST_AXIS_NAME = 14
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
# The lines above the cells: the name of the column axis, and the indices.
_NAME_LINE = 1
_BETWEEN = 2
# How much better the cells must look for an axis to be cut.
_CUT = 1.6


def by_axes(table: Sequence[Sequence[int]], names: tuple[str, str], room: Room) -> MeshDrawing:
    """Plan rows and columns with indices, in the largest cells that fit.

    An axis that is too long is cut into bands: of columns, one below the other, or of rows, side by side.
    A single axis in small cells wraps from line to line, as text does.
    """
    rows, columns = len(table), len(table[0])
    for of_level in tiles(room):
        tile = of_level[0]
        if not names[0] and tile.level >= CellDetail.CHAR and columns > room.width:
            stride = _line_length(columns, names[1], room, tile)
            lines = [table[0][i : i + stride] for i in range(0, columns, stride)]
            bands = _Bands(len(lines), stride, stride)
            if (
                bands.grown(len(lines), stride, (names[1], names[1]), room, tile) is not None
                or tile.level is CellDetail.QUARTER
            ):
                return _place_axes(lines, (names[1], names[1]), room, tile, bands)
            continue
        fitting = [
            (grown.shape * (_CUT if banded == (rows, columns, 1) else 1.0), tile, banded)
            for tile in of_level
            for banded in (
                _Bands(rows, columns),
                *_columns_in_bands(rows, columns, names, room, tile),
                *_rows_in_bands(rows, columns, room, tile),
            )
            if (grown := banded.grown(rows, columns, names, room, tile)) is not None
        ]
        if fitting:
            _, tile, best = max(fitting, key=lambda each: each[0])
            return _place_axes(table, names, room, tile, best)
    most = max(1, room.width - _axis_margin(rows, names))
    return _place_axes(table, names, room, HALF_TILE, _Bands(rows, _nice_count(min(most, columns), columns)))


class _Bands(NamedTuple):
    """The number of rows and columns in a band. The label of a row is its number times the stride."""

    rows: int
    columns: int
    stride: int = 1

    def grown(self, rows: int, columns: int, names: tuple[str, str], room: Room, tile: Tile) -> Tile | None:
        """Return the tile, as large as there is room; None if not even the smallest fits."""
        below, beside = ceil(columns / self.columns), ceil(rows / self.rows)
        width = (room.width + _BETWEEN) // beside - _BETWEEN - _axis_margin(rows * self.stride, names)
        if tile.across(self.columns) > width:
            return None
        wide = tile.grown(self.columns, self.rows, width, 0)
        height = (room.height - _lines_above(wide, names[1], columns)) // below - 1
        return None if tile.down(self.rows) > height else wide.grown(self.columns, self.rows, width, height)


def _lines_above(tile: Tile, name: str, columns: int) -> int:
    """Return the lines for the name of the column axis: none if it fits before each index."""
    return 0 if _is_named(tile, name, columns) else _NAME_LINE


def _is_named(tile: Tile, name: str, columns: int) -> bool:
    return len(_name(name)) + 1 + len(str(columns - 1)) <= tile.width and tile.height > 1


def _name(name: str) -> str:
    return name[:LONGEST_AXIS_NAME]


def _columns_in_bands(
    rows: int, columns: int, names: tuple[str, str], room: Room, tile: Tile
) -> Iterator[_Bands]:
    room_across = room.width - _axis_margin(rows, names)
    most = (
        2 * room_across
        if tile.level is CellDetail.QUARTER
        else (room_across + tile.gap) // (tile.width + tile.gap)
    )
    even = int(tile.level is CellDetail.QUARTER)
    yield from (_Bands(rows, count + count % 2 * even) for count in _counts(most - even, columns))


def _rows_in_bands(rows: int, columns: int, room: Room, tile: Tile) -> Iterator[_Bands]:
    most = (room.height - 2) * 2 if tile.level >= CellDetail.HALF else (room.height - 2) // tile.height
    yield from (_Bands(count, columns) for count in _counts(most, rows))


def _counts(most: int, all_of_them: int) -> Iterator[int]:
    """Yield round numbers of rows or columns in a band, for each number of bands that is useful."""
    for bands in range(max(2, ceil(all_of_them / most)), 9) if most > 0 else ():
        count = ceil(all_of_them / bands)
        if count < all_of_them:
            yield _nice_count(min(most, count), all_of_them) if count * bands != all_of_them else count
        if count == 1:
            return
    if most > 0 and ceil(all_of_them / most) > 8:
        yield _nice_count(min(most, all_of_them), all_of_them)


def _line_length(columns: int, name: str, room: Room, tile: Tile) -> int:
    """Return how many devices of a single axis go on a line: a round number if the axis then fits."""
    most = max(1, room.width - _axis_margin(columns, (name, name)))
    if tile.level is CellDetail.QUARTER:
        most *= 2

    def fits(count: int) -> bool:
        return 2 + tile.down(ceil(columns / count)) <= room.height

    nice = (step * (most // step) for step in NICE if step <= most)
    return next((count for count in nice if fits(count)), most)


def _nice_count(most: int, all_of_them: int) -> int:
    """Return a round number of rows or columns per band, if that does not add a band."""
    bands = ceil(all_of_them / most)
    nice = (step * (most // step) for step in NICE if step <= most)
    return next((count for count in nice if ceil(all_of_them / count) == bands), most)


def _axis_margin(rows: int, names: tuple[str, str]) -> int:
    """Return the width for the indices of the rows; 0 if there are no rows."""
    if not names[0]:
        return 0
    return max(len(_name(names[0])) + 2, len(str(rows - 1))) + 1


def _place_axes(
    table: Sequence[Sequence[int]], names: tuple[str, str], room: Room, tile: Tile, bands: _Bands
) -> MeshDrawing:
    rows, columns = len(table), len(table[0])
    margin, beside = _axis_margin(rows * bands.stride, names), ceil(rows / bands.rows)
    tile = bands.grown(rows, columns, names, room, tile) or tile
    above = _lines_above(tile, names[1], columns)
    width, height = margin + tile.across(bands.columns) + _BETWEEN, 1 + tile.down(bands.rows)
    cells: list[Cell] = []
    row_name, column_name = map(_name, names)
    # Where the indices have the name of their axis, no line is needed for it.
    labels = [Label(margin, 0, len(column_name) + 2, f"{column_name} →", "axis")] if above else []
    for r, row in enumerate(table):
        for c, device in enumerate(row):
            x, y = r // bands.rows * width + margin, above + c // bands.columns * height + 1
            at = r % bands.rows, c % bands.columns
            cells.append(cell_at(tile, device, (x, y), at, (r, c)))
    for left in range(0, rows, bands.rows):
        for top in range(0, columns, bands.columns):
            x, y = left // bands.rows * width, above + top // bands.columns * height
            if row_name:
                labels.append(Label(x, y, margin - 1, f"{row_name} ↓", "axis"))
                here = range(left, min(left + bands.rows, rows))
                labels.extend(_row_labels((x, y + 1), margin, tile, here, bands.stride))
            last = min(top + bands.columns, columns)
            prefix = "" if above else f"{column_name} "
            texts = [f"{prefix}{column}" for column in range(columns)]
            labels.extend(_column_labels((x + margin, y), tile, range(top, last), texts))
    bottom = above + ceil(columns / bands.columns) * height
    # Of a single axis that wraps, only the columns are one.
    row_axis = "" if bands.stride > 1 else names[0]
    return MeshDrawing(
        tile, tuple(cells), tuple(labels), beside * width - _BETWEEN, bottom, row_axis, names[1]
    )


def _row_labels(at: tuple[int, int], margin: int, tile: Tile, rows: range, stride: int) -> Iterator[Label]:
    x, y = at
    step = 2 if tile.level >= CellDetail.HALF else 1
    # In a box, the index is on the line of the value.
    drop = 1 if tile.level is CellDetail.BOX else (tile.height - 1) // 2
    for i, row in enumerate(rows[::step]):
        last = min(row + step, rows.stop)
        text = str(row * stride).rjust(margin - 1)
        yield Label(x, y + i * tile.height + drop, margin - 1, text, "row", row, last)


def _column_labels(at: tuple[int, int], tile: Tile, columns: range, texts: Sequence[str]) -> Iterator[Label]:
    """Yield the texts of as many columns as there is room for."""
    x, y = at
    needed, pitch = len(texts[-1]) + 1, tile.width + tile.gap

    def place(i: int) -> int:
        return i // 2 if tile.level is CellDetail.QUARTER else i * pitch

    fits = len(texts[-1]) <= tile.width
    step = 1 if fits else next((step for step in _STEPS if place(step) >= needed), len(texts))
    for i in range(0, len(columns), step):
        last = min(columns[i] + step, columns.stop)
        text = texts[columns[i]]
        if tile.width > len(text):
            text = text.center(tile.width).rstrip()
        yield Label(x + place(i), y, max(tile.width, len(text)), text, "column", columns[i], last)
