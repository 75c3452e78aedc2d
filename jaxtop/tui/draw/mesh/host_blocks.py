"""A block of devices per process, with the name above it or at the start of its row."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.tui.draw.mesh.layouts import (
    NICE,
    Block,
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
    from collections.abc import Sequence


class _Style(NamedTuple):
    """How blocks are labelled and separated: a title for each, or a label at the start of each row."""

    titled: bool
    gap_across: int
    gap_down: int


_STYLES = {
    CellDetail.BOX: (_Style(True, 3, 1), _Style(True, 3, 0), _Style(False, 3, 0)),
    CellDetail.CHIP: (_Style(True, 3, 1), _Style(True, 3, 0), _Style(False, 3, 0)),
    CellDetail.PAIR: (_Style(True, 3, 1), _Style(True, 3, 0), _Style(False, 2, 0)),
    CellDetail.CHAR: (_Style(True, 2, 1), _Style(True, 2, 0), _Style(False, 1, 0)),
    CellDetail.HALF: (_Style(False, 1, 0),),
}
# The width of the blank and the state's sign that follow a name.
SIGN_WIDTH = 2


def by_host(blocks: Sequence[Block], room: Room) -> MeshDrawing:
    """Plan a block per process, in the largest cells that fit; if none fit, the plan scrolls."""
    most = max((len(block.devices) for block in blocks), default=1)
    shapes = [columns for columns in range(most, 0, -1) if most % columns == 0]
    for tile in tiles(room):
        for style in _STYLES[tile.level]:
            for columns in shapes:
                fitted = _fit_blocks(blocks, room, tile, style, columns)
                if fitted is not None:
                    return _place_blocks(blocks, room, tile, style, fitted)
    style, tile = _STYLES[CellDetail.HALF][0], tiles(room)[-1]
    choices = [
        _Fitted(columns, max(1, _blocks_across(blocks, room, tile, style, columns))) for columns in shapes
    ]
    lowest = min(
        choices, key=lambda fit: ceil(len(blocks) / fit.across) * tile.down(ceil(most / fit.columns))
    )
    return _place_blocks(blocks, room, tile, style, lowest)


class _Fitted(NamedTuple):
    columns: int
    across: int


def _fit_blocks(
    blocks: Sequence[Block], room: Room, tile: Tile, style: _Style, columns: int
) -> _Fitted | None:
    """Return the columns per block and the blocks side by side; None if the blocks do not fit."""
    rows = ceil(max((len(block.devices) for block in blocks), default=1) / columns)
    shortest = max((len(block.names[-1]) for block in blocks), default=0)
    if style.titled and tile.across(columns) < shortest + SIGN_WIDTH:
        return None
    across = _blocks_across(blocks, room, tile, style, columns)
    if tile.level is CellDetail.BOX and not style.titled:
        across = min(1, across)  # boxes side by side are distinguished by their titles
    if across < 1:
        return None
    height = tile.down(rows) + style.titled + style.gap_down

    def fits(side_by_side: int) -> bool:
        return ceil(len(blocks) / side_by_side) * height - style.gap_down <= room.height

    if not fits(across):
        return None
    if style.titled:
        return _Fitted(columns, ceil(len(blocks) / ceil(len(blocks) / across)))
    nice = (step * (across // step) for step in NICE if step <= across)
    return _Fitted(columns, next((count for count in nice if fits(count)), across))


def _blocks_across(blocks: Sequence[Block], room: Room, tile: Tile, style: _Style, columns: int) -> int:
    margin = 0 if style.titled else _margin(blocks, -1)
    across = (room.width - margin + style.gap_across) // (tile.across(columns) + style.gap_across)
    return max(0, min(len(blocks), across))


def _margin(blocks: Sequence[Block], name: int) -> int:
    """Return the width for names at the start of the rows; the last name of a block is its shortest."""
    return (
        max((len(block.names[max(name, -len(block.names))]) for block in blocks), default=0) + SIGN_WIDTH + 1
    )


def _place_blocks(
    blocks: Sequence[Block], room: Room, tile: Tile, style: _Style, fitted: _Fitted
) -> MeshDrawing:
    columns, across = fitted
    margin = 0 if style.titled else _margin(blocks, -1)
    if margin and across == 1 and _margin(blocks, -2) + tile.across(columns) <= room.width:
        margin = _margin(blocks, -2)  # a row with one host has space for a longer name than its number
    tile = stretch(tile, (room.width - margin + style.gap_across) // across - style.gap_across, columns)
    rows = ceil(max((len(block.devices) for block in blocks), default=1) / columns)
    width, height = tile.across(columns) + style.gap_across, tile.down(rows) + style.titled + style.gap_down
    cells: list[Cell] = []
    labels: list[Label] = []
    for i, block in enumerate(blocks):
        x, y = margin + i % across * width, i // across * height
        if style.titled:
            labels.append(_named(block.names, (x, y), width - style.gap_across, (i, i + 1)))
        elif i % across == 0:
            names = block.names if across == 1 else block.names[-1:]
            labels.append(_named(names, (0, y), margin - 1, (i, min(i + across, len(blocks)))))
        for j, device in enumerate(block.devices):
            cells.append(cell_at(tile, device, (x, y + style.titled), divmod(j, columns), (i, j)))
    bottom = ceil(len(blocks) / across) * height - style.gap_down
    return MeshDrawing(
        tile, tuple(cells), tuple(labels), margin + across * width - style.gap_across, max(0, bottom)
    )


def _named(names: Sequence[str], at: tuple[int, int], width: int, rows: tuple[int, int]) -> Label:
    """Return a label with the longest name that fits beside the state's sign."""
    name = next((name for name in names if len(name) + SIGN_WIDTH <= width), names[-1])
    return Label(*at, width, name, "row", *rows)
