"""A table as text: which columns fit, and how the header and the rows are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Generic

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from jaxtop.base.units import NA
from jaxtop.tui.draw.table import NONE, Column, Row, fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.tui.core.palette import Palette

# The margin contains the cursor; the gap beside a title contains the mark of the sorted column.
MARGIN = 2
GAP = 2
CURSOR, ASCENDING, DESCENDING = "▌", "▲", "▼"
LEFT, RIGHT = "◂", "▸"


@dataclass(frozen=True)
class Slot(Generic[Row]):
    """A column with its place."""

    column: Column[Row]
    x: int
    width: int


@dataclass(frozen=True)
class VisibleColumns(Generic[Row]):
    """The columns that fit, and the number of columns to the left and to the right of them."""

    width: int
    slots: tuple[Slot[Row], ...] = ()
    before: int = 0
    after: int = 0

    @cached_property
    def hints(self) -> list[tuple[int, str, int]]:
        """The hints in the header that there are more columns: position, text and direction."""
        right = f"+{self.after}{RIGHT}" if self.after else ""
        left = f"{LEFT}{self.before}" if self.before else ""
        x = self.width - len(right)
        found = [(x - len(left) - bool(right), left, -1), (x, right, 1)]
        return [hint for hint in found if hint[1]]

    def column_at(self, x: int) -> Column[Row] | None:
        """Return the column at this position; its gap belongs to it."""
        for slot in self.slots:
            if slot.x - GAP < x < slot.x + slot.width + 1:
                return slot.column
        return None

    def way_at(self, x: int) -> int:
        """Return the direction of the hint at this position: -1 left, 1 right, 0 if there is none."""
        return next((way for at, text, way in self.hints if at <= x < at + len(text)), 0)


def lay_out(
    columns: Sequence[Column[Row]], width: int, pinned: int = 0, skipped: int = 0
) -> VisibleColumns[Row]:
    """Return the whole columns that fit, from the left: the pinned ones, then the rest after the skipped."""
    chosen = [*columns[:pinned], *columns[pinned + skipped :]]
    room = width - (len(f"{LEFT}{skipped} ") if skipped else 0)
    fitting = _fitting(chosen, room)
    if fitting < len(chosen):
        room -= len(f" +{len(columns)}{RIGHT}")
        fitting = _fitting(chosen, room)
    shown = chosen[:fitting]
    spare = room - MARGIN - sum(column.width for column in shown) - GAP * max(0, len(shown) - 1)
    taker = max((i for i, column in enumerate(shown) if column.flexible), default=None)
    slots, x = [], MARGIN
    for i, column in enumerate(shown):
        wide = column.width + (max(0, spare) if i == taker else 0)
        slots.append(Slot(column, x, wide))
        x += wide + GAP
    return VisibleColumns(width, tuple(slots), skipped, len(chosen) - fitting)


def _fitting(columns: Sequence[Column[Row]], width: int) -> int:
    x = MARGIN
    for i, column in enumerate(columns):
        x += column.width
        if x > width and i:
            return i
        x += GAP
    return len(columns)


def draw_header(
    layout: VisibleColumns[Row], sort: str | None, *, descending: bool, palette: Palette
) -> Strip:
    """Draw the titles, with a mark on the sorted column and hints for columns that do not fit."""
    plain = _style(palette.muted, palette.background, bold=True)
    marked = _style(palette.accent, palette.background, bold=True)
    line = _LineBuilder()
    for slot in layout.slots:
        column = slot.column
        is_sorted = column.key == sort
        mark = (DESCENDING if descending else ASCENDING) if is_sorted else ""
        title = fit(column.title.upper(), min(slot.width, cell_len(column.title)))
        style = marked if is_sorted else plain
        if column.align == "right":
            at = slot.x + slot.width - len(title) - len(mark)
            line.put(at, mark + title, style, plain)
        else:
            line.put(slot.x, title + mark, style, plain)
    for x, text, _ in layout.hints:
        line.put(x, text, marked, plain)
    return line.to_strip(layout.width, plain)


def draw_row(
    layout: VisibleColumns[Row],
    row: Row,
    palette: Palette,
    *,
    cursor: bool,
    focused: bool,
    tone: str | None = None,
) -> Strip:
    background = palette.cursor(focused=focused) if cursor else palette.background
    plain = tone or palette.foreground
    base = _style(plain, background)
    line = _LineBuilder()
    if cursor:
        line.put(0, CURSOR, _style(palette.accent if focused else palette.muted, background), base)
    for slot in layout.slots:
        column, x = slot.column, slot.x
        if column.draw is not None:
            for text, fore, back in column.draw(row, slot.width, palette):
                line.put(x, text, _style(fore or plain, back or background), base)
                x += cell_len(text)
            continue
        text = column.write(row)
        colour = None if column.style is None else column.style(row, palette)
        if colour is None:
            colour = palette.muted if text.strip() in (NA, NONE) else plain
        line.put(slot.x, fit(text, slot.width, column.align), _style(colour, background), base)
    return line.to_strip(layout.width, base)


def draw_note(text: str, width: int, palette: Palette) -> Strip:
    base = _style(palette.muted, palette.background)
    shown = fit(text, min(width, cell_len(text)))
    line = _LineBuilder()
    line.put(max(0, (width - cell_len(shown)) // 2), shown, base, base)
    return line.to_strip(width, base)


def draw_nothing(width: int, palette: Palette) -> Strip:
    return Strip.blank(width, _style(palette.muted, palette.background))


class _LineBuilder:
    """A line built from left to right; adjacent segments with the same style are joined."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, Style]] = []
        self._x = 0

    def put(self, x: int, text: str, style: Style, between: Style) -> None:
        if x > self._x:
            self._add(" " * (x - self._x), between)
        self._add(text, style)
        self._x = max(self._x, x) + (len(text) if text.isascii() else cell_len(text))

    def to_strip(self, width: int, base: Style) -> Strip:
        if self._x < width:
            self._add(" " * (width - self._x), base)
        strip = Strip([Segment(text, style) for text, style in self._parts], max(width, self._x))
        return strip if self._x <= width else strip.crop(0, width)

    def _add(self, text: str, style: Style) -> None:
        if self._parts and self._parts[-1][1] is style:
            self._parts[-1] = (self._parts[-1][0] + text, style)
        else:
            self._parts.append((text, style))


@lru_cache(maxsize=512)
def _style(colour: str | None, background: str | None, bold: bool | None = None) -> Style:
    return Style(color=colour, bgcolor=background, bold=bold)
