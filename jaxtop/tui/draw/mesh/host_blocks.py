"""A block of devices per process: in a frame, below its name, or with the name at the start of its row."""

from __future__ import annotations

from math import ceil
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.tui.draw.mesh.layouts import (
    HALF_TILE,
    NICE,
    Block,
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


class _Style(NamedTuple):
    """How blocks are named and separated, and the columns and lines that their frames take."""

    titled: bool
    gap_across: int
    gap_down: int
    beside: int = 0
    below: int = 0

    @property
    def above(self) -> int:
        return int(self.titled)

    @property
    def worth(self) -> float:
        """How much smaller cells may be for frames, for titles, and for gaps."""
        return 1.5 if self.beside else 1.25 if self.titled else 1.0 + 0.05 * min(1, self.gap_across)


_FRAMED = _Style(True, 1, 0, beside=2, below=1)
_STYLES = {
    CellDetail.BOX: (_FRAMED, _Style(True, 3, 0), _Style(False, 3, 0)),
    CellDetail.CHIP: (_FRAMED, _Style(True, 3, 1), _Style(True, 3, 0), _Style(False, 3, 0)),
    CellDetail.PAIR: (_FRAMED, _Style(True, 3, 1), _Style(True, 3, 0), _Style(False, 2, 0)),
    CellDetail.CHAR: (
        _FRAMED,
        _Style(True, 2, 1),
        _Style(True, 2, 0),
        _Style(False, 1, 0),
        _Style(False, 0, 0),
    ),
    CellDetail.HALF: (_Style(False, 1, 0), _Style(False, 0, 0)),
    CellDetail.QUARTER: (_Style(False, 1, 0), _Style(False, 0, 0)),
}
# Blocks that are higher than wide, in devices, are harder to read.
_UPRIGHT = 0.75
# The width of the blank and the state's sign that follow a name.
SIGN_WIDTH = 2


class _FittedBlocks(NamedTuple):
    """A tile that was grown, the columns of a block, and the blocks side by side after a margin."""

    tile: Tile
    columns: int
    across: int
    margin: int
    # How good it looks.
    merit: float = 0.0


class _Sizes(NamedTuple):
    """The number of blocks, the most devices of one, and the widths of their shortest and second names."""

    blocks: int
    most: int
    shortest: int
    second: int

    def margin(self, style: _Style, *, alone: bool = False) -> int:
        """Return the width for names at the start of rows; longer ones if each block has a row alone."""
        return 0 if style.titled else (self.second if alone else self.shortest) + SIGN_WIDTH + 1


def by_host(blocks: Sequence[Block], room: Room) -> MeshDrawing:
    """Plan a block per process, in the largest cells that fit; if none fit, the plan scrolls."""
    sizes = _Sizes(
        len(blocks),
        max((len(block.devices) for block in blocks), default=1),
        *(
            max((len(block.names[max(name, -len(block.names))]) for block in blocks), default=0)
            for name in (-1, -2)
        ),
    )
    shapes = [columns for columns in range(sizes.most, 0, -1) if sizes.most % columns == 0]
    for of_level in tiles(room):
        fitting = [
            (fitted.merit * style.worth, style, fitted)
            for style in _STYLES[of_level[0].level]
            for tile in of_level
            for columns in shapes
            for fitted in _fit_blocks(sizes, room, tile, style, columns)
        ]
        if fitting:
            _, style, best = max(fitting, key=itemgetter(0))
            return _place_blocks(blocks, style, best)
    style = _STYLES[CellDetail.HALF][0]
    choices = [
        _FittedBlocks(
            HALF_TILE,
            columns,
            max(1, _most_across(sizes, room, HALF_TILE, style, columns)),
            sizes.margin(style),
        )
        for columns in shapes
    ]
    lowest = min(
        choices,
        key=lambda fit: ceil(sizes.blocks / fit.across) * HALF_TILE.down(ceil(sizes.most / fit.columns)),
    )
    return _place_blocks(blocks, style, lowest)


def _fit_blocks(
    sizes: _Sizes, room: Room, tile: Tile, style: _Style, columns: int
) -> Iterator[_FittedBlocks]:
    """Yield the ways to put blocks with this number of columns side by side, with the tiles grown."""
    rows = ceil(sizes.most / columns)
    most = _most_across(sizes, room, tile, style, columns)
    if not style.titled and tile.level is CellDetail.BOX:
        most = min(1, most)  # boxes side by side are distinguished by their titles
    for across in _numbers_across(sizes.blocks, most, style):
        height = (room.height + style.gap_down) // ceil(sizes.blocks / across)
        within = height - style.gap_down - style.above - style.below
        if tile.down(rows) > within:
            continue
        margins = {sizes.margin(style, alone=across == 1), sizes.margin(style)}
        for margin in sorted(margins, reverse=True):
            width = (room.width - margin + style.gap_across) // across - style.gap_across - 2 * style.beside
            if tile.across(columns) <= width:
                break
        grown = tile.grown(columns, rows, width, within)
        if not style.titled or grown.across(columns) >= sizes.shortest + SIGN_WIDTH + style.beside:
            merit = grown.shape * (1.0 if columns >= rows else _UPRIGHT)
            yield _FittedBlocks(grown, columns, across, margin, merit)


def _numbers_across(blocks: int, most: int, style: _Style) -> Sequence[int]:
    """Return how many blocks may be side by side: without titles, a number that is easy to count."""
    if style.titled:
        # More side by side in as many rows would only make the cells narrower.
        return sorted({ceil(blocks / ceil(blocks / each)) for each in range(1, most + 1)})
    nice = [step * (most // step) for step in NICE if step <= most]
    return [*dict.fromkeys((*nice, most))] if most else []


def _most_across(sizes: _Sizes, room: Room, tile: Tile, style: _Style, columns: int) -> int:
    width = tile.across(columns) + 2 * style.beside + style.gap_across
    most = (room.width - sizes.margin(style) + style.gap_across) // width
    return max(0, min(sizes.blocks, most))


def _place_blocks(blocks: Sequence[Block], style: _Style, fitted: _FittedBlocks) -> MeshDrawing:
    tile, columns, across, margin, _ = fitted
    rows = ceil(max((len(block.devices) for block in blocks), default=1) / columns)
    wide, tall = tile.across(columns) + 2 * style.beside, tile.down(rows) + style.above + style.below
    width, height = wide + style.gap_across, tall + style.gap_down
    cells: list[Cell] = []
    labels: list[Label] = []
    for i, block in enumerate(blocks):
        x, y = margin + i % across * width, i // across * height
        if style.beside:
            labels.extend(_frame(block.names, (x, y), wide, tall, i))
        elif style.titled:
            labels.append(_named(block.names, (x, y), wide, (i, i + 1)))
        elif i % across == 0:
            names = block.names if across == 1 else block.names[-1:]
            labels.append(_named(names, (0, y), margin - 1, (i, min(i + across, len(blocks)))))
        corner = x + style.beside, y + style.above
        for j, device in enumerate(block.devices):
            cells.append(cell_at(tile, device, corner, divmod(j, columns), (i, j)))
    bottom = ceil(len(blocks) / across) * height - style.gap_down
    return MeshDrawing(
        tile, tuple(cells), tuple(labels), margin + across * width - style.gap_across, max(0, bottom)
    )


def _frame(names: Sequence[str], at: tuple[int, int], width: int, height: int, row: int) -> Iterator[Label]:
    """Yield the name of a block and the rest of a frame around it."""
    x, y = at
    yield Label(x, y, 2, "╭ ", "frame")
    yield _named(names, (x + 2, y), width - 4, (row, row + 1))._replace(role="title")
    yield Label(x + width - 2, y, 2, "─╮", "frame")
    for line in range(y + 1, y + height - 1):
        yield Label(x, line, 1, "│", "frame")
        yield Label(x + width - 1, line, 1, "│", "frame")
    yield Label(x, y + height - 1, width, f"╰{'─' * (width - 2)}╯", "frame")


def _named(names: Sequence[str], at: tuple[int, int], width: int, rows: tuple[int, int]) -> Label:
    """Return a label with the longest name that fits beside the state's sign."""
    name = next((name for name in names if len(name) + SIGN_WIDTH <= width), names[-1])
    return Label(*at, width, name, "row", *rows)
