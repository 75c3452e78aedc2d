"""Bars and columns of several parts, to an eighth of a character."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text
from textual.color import Color

from jaxtop.tui.draw.sparkline import EIGHTHS, HEIGHTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.style import Style

    from jaxtop.tui.draw.ink import Ink


FULL = "█"

# A text, its foreground and its background.
Segment = tuple[str, str | None, str | None]


def lengths(sizes: Sequence[float], end: float, width: int) -> list[int]:
    """Return the number of characters of each part; the ends are rounded, so each part ends in its place."""
    if not end or not width:
        return [0] * len(sizes)
    ends = [min(width, round(upto * width / end)) for upto in accumulate(sizes)]
    return [upto - before for before, upto in zip([0, *ends], ends, strict=False)]


class BarPart(NamedTuple):
    """A part of a bar: its size, its colour, its character without colours, and the one that fills it."""

    size: float
    colour: str
    sign: str
    fill: str = FULL


def bar_line(parts: Sequence[BarPart], end: float, width: int, ink: Ink) -> Text:
    """Return the parts side by side on a scale that ends at `end`; what they leave over is a track."""
    return cells(owners([each.size for each in parts], end, 8 * width), parts, ink, ink.palette.track, "·")


def cells(
    eighths: Sequence[int | None], parts: Sequence[BarPart], ink: Ink, ground: str, empty: str = " "
) -> Text:
    """Return a line of which each eighth of a character belongs to a part, or to the ground."""
    line = Text(no_wrap=True)
    for words, fore, back in segments(eighths, parts, ground, empty, plain=ink.plain):
        line.append(words, pair(ink, fore or ink.palette.foreground, back))
    return line


def segments(
    eighths: Sequence[int | None], parts: Sequence[BarPart], ground: str, empty: str, *, plain: bool
) -> list[Segment]:
    """Return the same for a cell of a table.

    Without colours a character has the sign of its first eighth, or `empty`. A part that is not filled
    evenly has whole characters.
    """
    found: list[Segment] = []
    for cell in range(0, len(eighths), 8):
        in_cell = eighths[cell : cell + 8]
        first = in_cell[0]
        count = in_cell.count(first)
        if plain:
            found.append((parts[first].sign if first is not None else empty, None, None))
        elif count == 8 or (first is not None and parts[first].fill != FULL):
            found.append(
                (" ", None, ground) if first is None else (parts[first].fill, parts[first].colour, None)
            )
        else:
            after = next(each for each in in_cell if each != first)
            fore, back = (
                parts[each].colour if each is not None and parts[each].fill == FULL else ground
                for each in (first, after)
            )
            found.append((EIGHTHS[count], fore, back))
    return [
        ("".join(glyph for glyph, _, _ in run), *colours)
        for colours, run in groupby(found, key=itemgetter(1, 2))
    ]


def legend_entry(sign: str, colour: str, name: str, value: str, ink: Ink) -> Text:
    """Return a part for a legend: its colour, or its sign without colours, its name and its figure."""
    line = Text.assemble(
        (sign if ink.plain else "█", pair(ink, colour)), (f" {name}", ink.label), no_wrap=True
    )
    return line.append(f" {value}", ink.figure) if value else line


def thin_bar(share: float, width: int, colour: str, ink: Ink) -> Text:
    """Return a share as a line, to half a character: bars below each other stay apart."""
    halves = max(1 if share > 0 else 0, round(2 * width * min(1.0, share)))
    whole, half = divmod(halves, 2)
    done = "━" * whole + "╸" * half
    if ink.plain:
        return Text(done.ljust(width, "·"), ink.blank)
    line = Text(done, pair(ink, colour), no_wrap=True)
    return line.append("━" * (width - len(done)), ink.track)


def columns(
    stacks: Sequence[Sequence[float] | None],
    colours: Sequence[str],
    signs: str,
    height: int,
    ink: Ink,
    *,
    width: int = 1,
    gap: int = 0,
) -> list[Text]:
    """Return stacks side by side, each of this width, from the highest line down; None leaves a gap.

    A size is a number of lines. A character shows at most two parts.
    """
    found = [None if sizes is None else owners(sizes, height, 8 * height) for sizes in stacks]
    between = [(" " * gap, ink.blank)] if gap else []
    return [
        spelled(
            cell
            for owned in found
            for glyph, style in (_cell(owned, row, colours, signs, ink),)
            for cell in ((glyph * width, style), *between)
        )
        for row in reversed(range(height))
    ]


def spelled(cells: Iterable[tuple[str, Style]]) -> Text:
    """Return characters as a line, with one span for neighbours with the same object as their style."""
    line = Text(no_wrap=True)
    for _, members in groupby(cells, key=lambda cell: id(cell[1])):  # to compare styles is slow
        run = list(members)
        line.append("".join([glyph for glyph, _ in run]), run[0][1])
    return line


def _cell(
    stack: Sequence[int | None] | None, row: int, colours: Sequence[str], signs: str, ink: Ink
) -> tuple[str, Style]:
    in_cell = () if stack is None else stack[8 * row : 8 * row + 8]
    if not in_cell or in_cell[0] is None:
        return " ", ink.blank
    below = in_cell[0]
    count = sum(each == below for each in in_cell)
    above = next((each for each in in_cell if each != below), below)
    if ink.plain:
        most = max({each for each in in_cell if each is not None}, key=in_cell.count)
        return signs[most], ink.blank
    if count == 8:
        return "█", pair(ink, colours[below])
    back = ink.palette.background if above is None else colours[above]
    return HEIGHTS[count - 1], pair(ink, colours[below], back)


@lru_cache(maxsize=1024)
def pair(ink: Ink, fore: str, back: str | None = None) -> Style:
    """Return the style of these colours; it is the same object each time."""
    return ink.style(fore, None if back is None else Color.parse(back))


def owners(sizes: Sequence[float], end: float, units: int) -> list[int | None]:
    """Return which part each unit belongs to; None for the units behind the last part."""
    found: list[int | None] = []
    for i, length in enumerate(lengths(sizes, end, units)):
        found += [i] * length
    return found + [None] * (units - len(found))
