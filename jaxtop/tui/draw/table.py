"""A table as text: which columns fit, and how the header and the rows are drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip

from jaxtop.names import shorten
from jaxtop.tui.text import NA, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtop.tui.palette import Palette

Row = TypeVar("Row")

# The margin holds the cursor; the gap beside a title holds the mark of the sorted column.
MARGIN = 2
GAP = 2
NOTHING = "–"
CURSOR, ASCENDING, DESCENDING = "▌", "▲", "▼"
LEFT, RIGHT = "◂", "▸"
# The most cached answers for one column and one word of a filter.
MOST_KNOWN = 10_000


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column: the value that it sorts by (None if unknown), its text, and optionally its colour."""

    key: str
    title: str
    width: int
    align: Literal["left", "right"]
    read: Callable[[Row], Any]
    write: Callable[[Row], str]
    style: Callable[[Row, Palette], str | None] | None = None
    # Whether the first sort by this column is descending.
    largest_first: bool = False
    # The last flexible column that fits takes the remaining width.
    flexible: bool = False
    # False for drawings: a filter finds no words in them.
    searched: bool = True
    # Writes the value of `read` as `write` does, if the value is enough: equal values are searched only once.
    form: Callable[[Any], str] | None = None
    # Draws a cell in its width and with its own colours, as segments of text, foreground and background.
    draw: Callable[[Row, int, Palette], Sequence[tuple[str, str | None, str | None]]] | None = None


def words(
    key: str,
    title: str,
    width: int,
    read: Callable[[Row], str | None],
    style: Callable[[Row, Palette], str | None] | None = None,
    *,
    flexible: bool = False,
) -> Column[Row]:
    """Return a column of words."""

    def form(value: str | None) -> str:
        return value or NA

    return Column(
        key, title, width, "left", read, lambda row: read(row) or NA, style, flexible=flexible, form=form
    )


def figure(
    key: str,
    title: str,
    width: int,
    read: Callable[[Row], Any],
    write: Callable[[Any], str],
    *,
    style: Callable[[Row, Palette], str | None] | None = None,
) -> Column[Row]:
    """Return a column of figures; it sorts the largest first, since users look for these."""
    return Column(
        key, title, width, "right", read, lambda row: write(read(row)), style, largest_first=True, form=write
    )


def ordinal(key: str, title: str, width: int, read: Callable[[Row], int | None]) -> Column[Row]:
    """Return a column of numbers that name something; they sort upwards and have no separators."""

    def form(value: int | None) -> str:
        return NA if value is None else str(value)

    return Column(key, title, width, "right", read, lambda row: form(read(row)), form=form)


@dataclass(frozen=True)
class Slot(Generic[Row]):
    """A column with its place."""

    column: Column[Row]
    x: int
    width: int


@dataclass(frozen=True)
class Layout(Generic[Row]):
    """The columns that fit, and the number of columns to the left and to the right of them."""

    width: int
    slots: tuple[Slot[Row], ...] = ()
    before: int = 0
    after: int = 0
    # The hints in the header that there are more columns: position, text and direction.
    hints: tuple[tuple[int, str, int], ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        right = f"+{self.after}{RIGHT}" if self.after else ""
        left = f"{LEFT}{self.before}" if self.before else ""
        hints: list[tuple[int, str, int]] = []
        x = self.width
        for text, way in ((right, 1), (left, -1)):
            if text:
                x -= len(text) + (1 if hints else 0)
                hints.append((x, text, way))
        object.__setattr__(self, "hints", tuple(reversed(hints)))

    def column_at(self, x: int) -> Column[Row] | None:
        """Return the column at this position; its gap belongs to it."""
        for slot in self.slots:
            if slot.x - GAP < x < slot.x + slot.width + 1:
                return slot.column
        return None

    def way_at(self, x: int) -> int:
        """Return the direction of the hint at this position: -1 left, 1 right, 0 if there is none."""
        return next((way for at, text, way in self.hints if at <= x < at + len(text)), 0)


def lay_out(columns: Sequence[Column[Row]], width: int, pinned: int = 0, skipped: int = 0) -> Layout[Row]:
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
    return Layout(width, tuple(slots), skipped, len(chosen) - fitting)


def _fitting(columns: Sequence[Column[Row]], width: int) -> int:
    x = MARGIN
    for i, column in enumerate(columns):
        x += column.width
        if x > width and i:
            return i
        x += GAP
    return len(columns)


def in_order(rows: Iterable[Row], column: Column[Row] | None, *, descending: bool) -> list[Row]:
    """Return the rows sorted by a column; rows without a value come last in both directions."""
    if column is None:
        return list(rows)
    read = column.read
    known, unknown = [], []
    for row in rows:
        value = read(row)
        if value is None:
            unknown.append(row)
        else:
            known.append((value, row))
    known.sort(key=itemgetter(0), reverse=descending)
    return [row for _, row in known] + unknown


def matching(rows: Iterable[Row], columns: Sequence[Column[Row]], text: str) -> list[Row]:
    """Return the rows whose cells contain all words of a filter, ignoring case."""
    left = list(rows)
    for word in text.lower().split():
        found = [False] * len(left)
        for column in columns:
            if column.searched:
                holds = _search(column, word)
                found = [is_in or holds(row) for is_in, row in zip(found, left, strict=True)]
        left = list(compress(left, found))
    return left


@lru_cache(maxsize=64)
def _search(column: Column[Any], word: str) -> Callable[[Any], bool]:
    """Return a cached test for a word in a cell: it runs on thousands of rows several times a second."""
    read, write, form = column.read, column.write, column.form
    if form is None:
        return lambda row: word in write(row).lower()
    known: dict[Any, bool] = {}

    def holds(row: Any) -> bool:
        value = read(row)
        answer = known.get(value)
        if answer is None:
            if len(known) > MOST_KNOWN:
                known.clear()
            answer = known[value] = word in form(value).lower()
        return answer

    return holds


def fit(text: str, width: int, align: str = "left") -> str:
    """Return the text in exactly this many cells, without the control characters of foreign texts."""
    text = printable(text)
    length = len(text) if text.isascii() else cell_len(text)
    if length > width:
        if text.isascii():
            return shorten(text, width).ljust(width)
        return set_cell_size(text, width - 1) + "…" if width else ""
    padding = " " * (width - length)
    return padding + text if align == "right" else text + padding


def draw_header(layout: Layout[Row], sort: str | None, *, descending: bool, palette: Palette) -> Strip:
    """Draw the titles, with a mark on the sorted column and hints for columns that do not fit."""
    plain = _style(palette.muted, palette.theme.background, bold=True)
    marked = _style(palette.theme.accent or palette.warning, palette.theme.background, bold=True)
    line = _Line()
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
    layout: Layout[Row], row: Row, palette: Palette, *, cursor: bool, focused: bool, tone: str | None = None
) -> Strip:
    """Draw one row; the cursor's row has a sign in the margin and a background."""
    background = _cursor_background(palette, focused=focused) if cursor else palette.theme.background
    plain = tone or palette.theme.foreground or palette.muted
    base = _style(plain, background)
    line = _Line()
    if cursor:
        line.put(0, CURSOR, _style(palette.theme.primary if focused else palette.muted, background), base)
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
            colour = palette.muted if text.strip() in (NA, NOTHING) else plain
        line.put(slot.x, fit(text, slot.width, column.align), _style(colour, background), base)
    return line.to_strip(layout.width, base)


def draw_note(text: str, width: int, palette: Palette) -> Strip:
    """Draw a message in the middle of an empty table."""
    base = _style(palette.muted, palette.theme.background)
    shown = fit(text, min(width, cell_len(text)))
    line = _Line()
    line.put(max(0, (width - cell_len(shown)) // 2), shown, base, base)
    return line.to_strip(width, base)


def draw_nothing(width: int, palette: Palette) -> Strip:
    """Draw a line without a row."""
    return Strip.blank(width, _style(palette.muted, palette.theme.background))


class _Line:
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


@lru_cache(maxsize=32)
def _blend(ground: str, colour: str, share: float) -> str:
    return Color.parse(ground).blend(Color.parse(colour), share).hex


def _cursor_background(palette: Palette, *, focused: bool) -> str:
    return _blend(palette.theme.background or "#000000", palette.theme.primary, 0.28 if focused else 0.12)
