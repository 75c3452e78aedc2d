"""The columns of a table: what they show, and how rows are sorted and searched by them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from rich.cells import cell_len, set_cell_size

from jaxtop.base.names import shorten
from jaxtop.base.units import NA
from jaxtop.tui.core.sticky_value import StickyValue
from jaxtop.tui.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from jaxtop.tui.core.palette import Palette

Row = TypeVar("Row")

# What a cell shows where there is nothing; what is unknown is n/a.
NONE = "–"
# The least seconds between two changes of the order while the rows are the same.
HELD_SECONDS = 2.0
# The most cached answers for one column and one word of a filter.
MAX_CACHED = 10_000


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

    @property
    def face(self) -> tuple[str, str, int]:
        """What tells columns of a table apart: functions that are made anew do the same."""
        return self.key, self.title, self.width


def words_column(
    key: str,
    title: str,
    width: int,
    read: Callable[[Row], str | None],
    style: Callable[[Row, Palette], str | None] | None = None,
    *,
    flexible: bool = False,
) -> Column[Row]:
    def form(value: str | None) -> str:
        return value or NA

    return Column(
        key, title, width, "left", read, lambda row: read(row) or NA, style, flexible=flexible, form=form
    )


def muted(_row: Any, palette: Palette) -> str:
    return palette.muted


def figure_column(
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


def ordinal_column(key: str, title: str, width: int, read: Callable[[Row], int | None]) -> Column[Row]:
    """Return a column of numbers that name something; they sort upwards and have no separators."""

    def form(value: int | None) -> str:
        return NA if value is None else str(value)

    return Column(key, title, width, "right", read, lambda row: form(read(row)), form=form)


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
    left = list(rows)
    for word in text.lower().split():
        found = [False] * len(left)
        for column in columns:
            if column.searched:
                contains = _search(column, word)
                found = [is_in or contains(row) for is_in, row in zip(found, left, strict=True)]
        left = list(compress(left, found))
    return left


@lru_cache(maxsize=64)
def _search(column: Column[Any], word: str) -> Callable[[Any], bool]:
    """Return a cached test for a word in a cell: it runs on thousands of rows several times a second."""
    read, write, form = column.read, column.write, column.form
    if form is None:
        return lambda row: word in write(row).lower()
    cache: dict[Any, bool] = {}

    def contains(row: Any) -> bool:
        value = read(row)
        answer = cache.get(value)
        if answer is None:
            if len(cache) > MAX_CACHED:
                cache.clear()
            answer = cache[value] = word in form(value).lower()
        return answer

    return contains


class RowQuery(Generic[Row]):
    """The filter and the order of the rows of a table."""

    def __init__(
        self,
        columns: Sequence[Column[Row]],
        sort: str | None,
        understand: Callable[[str], Callable[[Any], bool] | None] | None,
    ) -> None:
        # All columns, and those that are shown, in this order.
        self.offered = self.columns = tuple(columns)
        self._chosen: tuple[str, ...] = ()
        self.text = ""
        # The test of a filter with conditions. None: the words of the text are searched in the cells.
        self.test: Callable[[Any], bool] | None = None
        self.understand = understand
        self.sort = self._column(sort)
        self.descending = self.sort is not None and self.sort.largest_first

    def _column(self, key: str | None) -> Column[Row] | None:
        return next((column for column in self.columns if column.key == key), None)

    def replace_columns(self, columns: Sequence[Column[Row]]) -> None:
        self.offered = tuple(columns)
        self.choose(self._chosen)

    def choose(self, keys: Sequence[str]) -> None:
        """Show the columns with these keys, in this order; all if there are none."""
        self._chosen = tuple(keys)
        found = {column.key: column for column in self.offered}
        self.columns = tuple(found[key] for key in keys if key in found) or self.offered
        self.sort = self._column(self.sort.key if self.sort else None)

    def filter_by(self, text: str) -> None:
        """Filter by a text. Raises `Wrong` and changes nothing if the text is not valid."""
        if self.understand is not None:
            self.test = self.understand(text) if text.strip() else None
        self.text = text

    def sort_by(self, column: Column[Row]) -> None:
        self.sort, self.descending = column, column.largest_first

    def beside_sorted(self, by: int) -> Column[Row] | None:
        """Return the column that is `by` places from the sorted one; the first if none is sorted."""
        if not self.columns:
            return None
        at = self.columns.index(self.sort) + by if self.sort in self.columns else 0
        return self.columns[at % len(self.columns)]

    def reverse(self) -> None:
        self.descending = not self.descending
        if self.sort is None and self.columns:
            self.sort = self.columns[0]

    def select(self, rows: Sequence[Row]) -> list[Row]:
        if self.test is not None:
            rows = list(filter(self.test, rows))
        elif self.text.strip():
            rows = matching(rows, self.columns, self.text)
        return self.in_order(rows)

    def in_order(self, rows: Iterable[Row]) -> list[Row]:
        return in_order(rows, self.sort, descending=self.descending)


class HeldOrder(Generic[Row]):
    """The order of rows whose figures change. It stays for a while: rows do not jump under a cursor."""

    def __init__(self) -> None:
        self._keys: tuple[Hashable, ...] = ()
        self._sticky = StickyValue(HELD_SECONDS)

    def held(
        self, rows: list[Row], key: Callable[[Row], Hashable], sought: Hashable, at: float | None
    ) -> list[Row]:
        """Return sorted rows in the order that they had.

        They are returned as they are after a while, if rows came or went, if the user sought something else
        such as another order, and without time.
        """
        found = {key(row): row for row in rows}
        if self._sticky.lasts((sought, frozenset(found)), at):
            return [found[each] for each in self._keys]
        self._keys = tuple(found)
        return rows


def fit(text: str, width: int, align: str = "left") -> str:
    """Return the text in exactly this many cells, without the control characters of untrusted texts."""
    text = printable(text)
    length = len(text) if text.isascii() else cell_len(text)
    if length > width:
        if text.isascii():
            return shorten(text, width).ljust(width)
        return set_cell_size(text, width - 1) + "…" if width else ""
    padding = " " * (width - length)
    return padding + text if align == "right" else text + padding
