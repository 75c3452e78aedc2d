"""The columns of a table in view: the pinned ones, and of the others those after the skipped ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from jaxtop.tui.draw.table import Column, Row
from jaxtop.tui.draw.table_lines import VisibleColumns, lay_out

if TYPE_CHECKING:
    from collections.abc import Sequence


class ColumnScroll(Generic[Row]):
    """The columns that are in view, and how far the user scrolled them to the side."""

    def __init__(self, columns: Sequence[Column[Row]], pinned: int) -> None:
        self._columns = columns
        self._pinned = pinned
        self._skipped = 0
        # The key of a column that stays in view, even where columns appear before it, until the user scrolls.
        self._sought = ""
        self.layout: VisibleColumns[Row] = VisibleColumns(0)

    def replace(self, columns: Sequence[Column[Row]], width: int) -> None:
        self._columns = columns
        self.lay_out(width)

    def lay_out(self, width: int) -> VisibleColumns[Row]:
        self._skipped = min(self._skipped, max(0, len(self._columns) - self._pinned - 1))
        self.layout = lay_out(self._columns, width, self._pinned, self._skipped)
        return self.layout

    def resize(self, width: int) -> None:
        """Lay out for another width; where all columns fit, none is skipped."""
        if lay_out(self._columns, width).after == 0:
            self._skipped = 0
        self.lay_out(width)

    def shift(self, by: int, width: int) -> bool:
        """Scroll by this many columns; return whether there are columns on that side."""
        self._sought = ""
        if not ((by > 0 and self.layout.after) or (by < 0 and self._skipped)):
            return False
        self._skipped += by
        self.lay_out(width)
        return True

    def seek(self, key: str) -> None:
        """Keep the column with this key in view, now or when it appears."""
        self._sought = key

    def reveal_sought(self, width: int) -> None:
        column = next((each for each in self._columns if each.key == self._sought), None)
        if column is not None and width and not self.width_of(self._sought):
            self._bring_into_view(column, width)

    def reveal(self, column: Column[Row], width: int) -> None:
        """Scroll a column into view; none is kept there any longer."""
        self._sought = ""
        self._bring_into_view(column, width)

    def _bring_into_view(self, column: Column[Row], width: int) -> None:
        """Skip the fewest columns that make this one visible; in a very narrow table, none may do so."""
        place = self._columns.index(column) - self._pinned
        if place < 0:
            return
        for skipped in range(min(self._skipped, place), place + 1):
            self._skipped = skipped
            if any(slot.column is column for slot in self.lay_out(width).slots):
                return

    def width_of(self, key: str) -> int:
        return next((slot.width for slot in self.layout.slots if slot.column.key == key), 0)
