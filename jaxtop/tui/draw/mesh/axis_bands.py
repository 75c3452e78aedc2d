"""Two axes as rows and columns with indices; an axis that is too long is cut into bands."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.tui.draw.mesh.layouts import (
    NICE,
    Cell,
    CellDetail,
    Label,
    MeshDrawing,
    Room,
    Tile,
    cell_at,
    stretch,
    tiles,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST_AXIS_NAME = 14
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def by_axes(table: Sequence[Sequence[int]], names: tuple[str, str], room: Room) -> MeshDrawing:
    """Plan rows and columns with indices, in the largest cells that fit.

    An axis that is too long is cut into bands: of columns, one below the other, or of rows, side by side.
    A single axis in small cells wraps from line to line, as text does.
    """
    rows, columns = len(table), len(table[0])
    for tile in tiles(room):
        if not names[0] and tile.level >= CellDetail.CHAR and columns > room.width:
            stride = _line_length(columns, names[1], room, tile)
            lines = [table[0][i : i + stride] for i in range(0, columns, stride)]
            bands = _Bands(len(lines), stride, stride)
            if (
                bands.fit(len(lines), stride, (names[1], names[1]), room, tile)
                or tile.level is CellDetail.HALF
            ):
                return _place_axes(lines, (names[1], names[1]), room, tile, bands)
            continue
        wrapped = [_columns_in_bands(rows, columns, names, room, tile)]
        wrapped.append(_rows_in_bands(rows, columns, room, tile))
        for banded in (_Bands(rows, columns), *(wrapped if rows <= columns else wrapped[::-1])):
            if banded is not None and banded.fit(rows, columns, names, room, tile):
                return _place_axes(table, names, room, tile, banded)
    tile = tiles(room)[-1]
    most = max(1, room.width - _axis_margin(rows, names))
    return _place_axes(table, names, room, tile, _Bands(rows, _nice_count(min(most, columns), columns)))


class _Bands(NamedTuple):
    """The number of rows and columns in a band. The label of a row is its number times the stride."""

    rows: int
    columns: int
    stride: int = 1

    def fit(self, rows: int, columns: int, names: tuple[str, str], room: Room, tile: Tile) -> bool:
        below, beside = ceil(columns / self.columns), ceil(rows / self.rows)
        width = beside * (_axis_margin(rows, names) + tile.across(self.columns) + _BETWEEN) - _BETWEEN
        return width <= room.width and 1 + below * (1 + tile.down(self.rows)) <= room.height


_BETWEEN = 2


def _columns_in_bands(
    rows: int, columns: int, names: tuple[str, str], room: Room, tile: Tile
) -> _Bands | None:
    most = (room.width - _axis_margin(rows, names) + tile.gap) // (tile.width + tile.gap)
    return _Bands(rows, _nice_count(min(most, columns), columns)) if most >= 1 else None


def _rows_in_bands(rows: int, columns: int, room: Room, tile: Tile) -> _Bands | None:
    most = (room.height - 2) * 2 if tile.level is CellDetail.HALF else (room.height - 2) // tile.height
    return _Bands(_nice_count(min(most, rows), rows), columns) if most >= 1 else None


def _line_length(columns: int, name: str, room: Room, tile: Tile) -> int:
    """Return how many devices of a single axis go on a line: a round number if the axis then fits."""
    most = max(1, room.width - _axis_margin(columns, (name, name)))

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
    return max(len(names[0][:LONGEST_AXIS_NAME]) + 2, len(str(rows - 1))) + 1


def _place_axes(
    table: Sequence[Sequence[int]], names: tuple[str, str], room: Room, tile: Tile, bands: _Bands
) -> MeshDrawing:
    rows, columns = len(table), len(table[0])
    margin, beside = _axis_margin(rows * bands.stride, names), ceil(rows / bands.rows)
    tile = stretch(tile, (room.width + _BETWEEN) // beside - _BETWEEN - margin, bands.columns)
    width, height = margin + tile.across(bands.columns) + _BETWEEN, 1 + tile.down(bands.rows)
    cells: list[Cell] = []
    row_name, column_name = (name[:LONGEST_AXIS_NAME] for name in names)
    labels = [Label(margin, 0, len(column_name) + 2, f"{column_name} →", "axis")]
    for r, row in enumerate(table):
        for c, device in enumerate(row):
            x, y = r // bands.rows * width + margin, 1 + c // bands.columns * height + 1
            at = r % bands.rows, c % bands.columns
            cells.append(cell_at(tile, device, (x, y), at, (r, c)))
    for left in range(0, rows, bands.rows):
        for top in range(0, columns, bands.columns):
            x, y = left // bands.rows * width, 1 + top // bands.columns * height
            if row_name:
                labels.append(Label(x, y, margin - 1, f"{row_name} ↓", "axis"))
                here = range(left, min(left + bands.rows, rows))
                labels.extend(_row_labels((x, y + 1), margin, tile, here, bands.stride))
            last = min(top + bands.columns, columns)
            labels.extend(_column_labels(x + margin, y, tile, range(top, last), columns))
    bottom = 1 + ceil(columns / bands.columns) * height
    return MeshDrawing(tile, tuple(cells), tuple(labels), beside * width - _BETWEEN, bottom)


def _row_labels(at: tuple[int, int], margin: int, tile: Tile, rows: range, stride: int) -> Iterator[Label]:
    x, y = at
    step = 2 if tile.level is CellDetail.HALF else 1
    # In a box, the index is on the line of the value.
    drop = 1 if tile.height > 1 else 0
    for i, row in enumerate(rows[::step]):
        last = min(row + step, rows.stop)
        text = str(row * stride).rjust(margin - 1)
        yield Label(x, y + i * tile.height + drop, margin - 1, text, "row", row, last)


def _column_labels(x: int, y: int, tile: Tile, columns: range, count: int) -> Iterator[Label]:
    needed = len(str(count - 1)) + 1
    pitch = tile.width + tile.gap
    step = next((step for step in _STEPS if step * pitch >= needed), count)
    for i in range(0, len(columns), step):
        last = min(columns[i] + step, columns.stop)
        text = str(columns[i]).center(tile.width) if tile.height > 1 else str(columns[i])
        yield Label(x + i * pitch, y, max(tile.width, len(text)), text, "column", columns[i], last)
