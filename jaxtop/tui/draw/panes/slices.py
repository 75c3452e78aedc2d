"""A picture of the slices of an array: one cell per device, with the letter and colour of its slice."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.tui.core.palette import STEPS
from jaxtop.tui.core.slices import SIGNS, ArraySlices, in_words
from jaxtop.tui.draw.mesh.axes import sizes_in_words
from jaxtop.tui.draw.panes.device import ids_in_words
from jaxtop.tui.draw.reading import Scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.tui.draw.ink import Ink


@dataclass(frozen=True)
class Picture:
    """Lines of cells, and the devices that they show."""

    caption: str
    lines: tuple[Text, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()
    cell: int = 1

    def device_at(self, x: int, y: int) -> int | None:
        if not 0 <= y < len(self.rows) or x < 0 or x // self.cell >= len(self.rows[y]):
            return None
        return self.rows[y][x // self.cell]

    @property
    def width(self) -> int:
        return max((line.cell_len for line in self.lines), default=0)


def draw(slices: ArraySlices, ink: Ink, width: int, height: int, *, brief: bool = False) -> Picture:
    """Draw the devices along the axes of their mesh, or in plain rows if needed; `brief` omits the sizes."""
    ink = ink.on(Scale.CATEGORY)
    widest = max(len(slices.label(0)), len(slices.label(len(slices.pieces) - 1)))
    caption, rows, cell = _arrange(slices, max(1, width), max(1, height), widest, _names if brief else _sized)
    shown = tuple(row[: max(1, width) // cell] for row in rows[:height])
    lines = []
    for row in shown:
        line = Text(no_wrap=True, end="")
        for device_id in row:
            piece = slices.ordinals.get(device_id)
            if piece is None:
                line.append("·".ljust(cell), ink.note)
                continue
            _, style = ink.whole(piece % STEPS)
            if cell == 1:
                line.append(slices.sign(piece), style)
            else:
                line.append(slices.label(piece).center(cell - 1), style)
                line.append(" ")
        if cell > 1:
            line.right_crop(1)  # the last cell needs no gap
        lines.append(line)
    count, total = sum(map(len, shown)), len(slices.device_ids)
    if count < total:
        caption += f", {count:,} of {total:,}"
    return Picture(caption, tuple(lines), shown, cell)


def _arrange(
    slices: ArraySlices,
    width: int,
    height: int,
    widest: int,
    names: Callable[[Sequence[tuple[str, int]]], str],
) -> tuple[str, Sequence[tuple[int, ...]], int]:
    """Return the caption of the directions, the devices row by row, and the width of a cell."""
    axes, ids = slices.axes, slices.device_ids
    large, small = (widest + 3, widest + 1), (1,)
    for cells in (large, small):
        for turned in (False, True):
            for cell, split in product(cells, range(len(axes) - 1, 0, -1)):
                down, across = axes[:split], axes[split:]
                rows, columns = _size(down), _size(across)
                if rows * columns != len(ids):
                    continue
                table = [ids[row * columns : (row + 1) * columns] for row in range(rows)]
                if turned:
                    table = list(zip(*table, strict=True))
                    rows, columns, down, across = columns, rows, across, down
                if columns * cell <= width and rows <= height:
                    return f"{names(down)} ↓  {names(across)} →", table, cell
    order = "in mesh order" if len(axes) > 1 else f"{names(axes)} →" if axes else "the devices"
    for cell in (*large, *small):
        columns = width // cell
        # Rows that are a multiple of the last axis in length show the pattern.
        last = axes[-1][1] if axes else 1
        columns = columns // last * last or columns
        if columns and -(-len(ids) // columns) <= height:
            break
    columns = max(1, columns)
    return order, [ids[at : at + columns] for at in range(0, len(ids), columns)], cell


def _size(axes: Sequence[tuple[str, int]]) -> int:
    return prod(size for _, size in axes)


def _names(axes: Sequence[tuple[str, int]]) -> str:
    return " ".join(name for name, _ in axes)


def _sized(axes: Sequence[tuple[str, int]]) -> str:
    return sizes_in_words(axes) if len(axes) == 1 else _names(axes)


def legend(slices: ArraySlices, picture: Picture, ink: Ink, width: int, height: int) -> list[Text]:
    """Return one line per slice with its devices, and a line with the number of slices left out."""
    lines: list[Text] = []
    if len(slices.pieces) == 1 and height:
        span, ids = slices.pieces[0]
        line = Text("", no_wrap=True, end="")
        line.append(f"{slices.label(0)} ", ink.figure)
        held = "all of it" if len(ids) == 1 else f"all of it, on each of {len(ids):,} devices"
        return [line.append(f" {held} {in_words(span)}")]
    # The ids of the devices are more important than the word before them.
    shown = [f"{in_words(span)}{' '.join(map(str, ids[:8]))}" for span, ids in slices.pieces[:height]]
    roomy = max(map(len, shown)) + len("a   devices ") <= width
    left = len(slices.pieces)
    one_sign = picture.cell == 1
    for piece, (span, ids) in enumerate(slices.pieces):
        if len(lines) == height - 1 and left > 1:
            again = one_sign and len(slices.pieces) > len(SIGNS)
            words = f"… and {left:,} more{', letters repeat' if again else ' slices'}"
            lines.append(Text(words, ink.note))
            break
        if len(lines) >= height:
            break
        name = slices.sign(piece) if one_sign else slices.label(piece)
        line = Text(no_wrap=True, end="")
        line.append(f"{name} ", ink.figure)
        line.append(f"{' ' if roomy else ''}{in_words(span)}")
        noun = " on " if not roomy else "  device " if len(ids) == 1 else "  devices "
        room = width - line.cell_len - len(noun)
        if room >= len(str(ids[0])) + (len(ids) > 1):
            line.append(noun, ink.note)
            line.append(ids_in_words(ids, room))
        lines.append(line)
        left -= 1
    return lines
