"""The table that all screens use: a cursor, an order and a filter over rows with keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from jaxtop.tui.draw import table_lines as draw
from jaxtop.tui.draw.table import HeldOrder, Row
from jaxtop.tui.filters.expressions import Wrong
from jaxtop.tui.widgets.columned_view import ColumnedView

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from textual import events
    from textual.strip import Strip

    from jaxtop.tui.core.palette import Palette
    from jaxtop.tui.draw.table import Column


class Table(ColumnedView[Row], can_focus=True, inherit_bindings=False):
    """A table whose rows have keys: the cursor stays on its row when the order changes.

    The table sorts and filters after all updates of a refresh, so it does so at most once per refresh.
    """

    DEFAULT_CSS = """
    Table { height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-gutter: stable;
            scrollbar-size-vertical: 1; scrollbar-color: $primary 40%; scrollbar-background: $background;
            scrollbar-background-hover: $background; scrollbar-background-active: $background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Open"),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("g", "top", "First row", show=False),
        Binding("G", "bottom", "Last row", show=False),
        Binding("left,h", "shift(-1)", "Columns to the left", show=False),
        Binding("right,l", "shift(1)", "Columns to the right", show=False),
        Binding("comma", "sort(-1)", "Sort by the previous column", show=False),
        Binding("full_stop", "sort(1)", "Sort by the next column", show=False),
        Binding("S", "reverse", "Reverse the order", show=False),
    ]

    @dataclass
    class Moved(Message):
        """The user moved the cursor to a row."""

        row: Any

    class Chosen(Moved):
        """The user opened a row."""

    @dataclass
    class Refused(Message):
        """The text typed as a filter is not valid."""

        wrong: Wrong

    @dataclass
    class Counted(Message):
        """The number of rows shown and the number of all rows."""

        shown: int
        total: int

    def __init__(
        self,
        columns: Sequence[Column[Row]],
        key: Callable[[Row], Hashable],
        *,
        noun: str = "row",
        pinned: int = 1,
        sort: str | None = None,
        tone: Callable[[Row, Palette], str | None] | None = None,
        follows_top: bool = False,
        understand: Callable[[str], Callable[[Any], bool] | None] | None = None,
    ) -> None:
        """Create a table without rows.

        Args:
            columns: The columns, the most important first.
            key: Returns the key of a row; each key is unique.
            noun: The word for one row.
            pinned: How many columns stay in place when the others scroll sideways.
            sort: The key of the column to sort by; without it, the rows keep their given order.
            tone: Returns the colour of the row's cells that have none of their own.
            follows_top: A cursor on the first row stays at the top when another row becomes the first.
            understand: Turns the text of a filter into a test of a row, or raises Wrong. Without it, a row
                matches if its cells contain the words of the filter.
        """
        super().__init__(columns, pinned, sort, understand)
        self._key = key
        self._noun = noun
        self._tone = tone
        self._follows_top = follows_top
        self._empty = f"no {noun} yet"
        self._rows: Sequence[Row] = ()
        self._at: float | None = None
        self._order: HeldOrder[Row] = HeldOrder()
        self._shown: list[Row] = []
        self._stale = False
        # The error of the text that was typed last; None if it is a valid filter.
        self._wrong: Wrong | None = None
        self._counted = (0, 0)
        self._cursor = 0
        # The key of the row that the cursor is on, or returns to when the row appears. None: none was chosen.
        self._wanted: Hashable | None = None
        self._reveal = False

    def update_rows(self, rows: Sequence[Row], empty: str | None = None, *, at: float | None = None) -> None:
        """Replace the rows.

        Args:
            rows: The rows.
            empty: The message that an empty table shows.
            at: The time of figures that change all the time; then the order of rows changes less often.
        """
        self._rows, self._at = rows, at
        if empty is not None:
            self._empty = empty
        self._touch()

    @property
    def words(self) -> str:
        return self._query.text

    def filter_by(self, text: str) -> None:
        """Show only the rows that contain these words or meet these conditions.

        A text that is not valid changes nothing.
        """
        before = self.words
        try:
            self._query.filter_by(text)
        except Wrong as wrong:
            self._wrong = wrong
            self.post_message(self.Refused(wrong))
            return
        self._wrong = None
        if self._query.understand is not None:
            self._counted = (-1, -1)  # forces a new Counted: it replaces an error message in the filter line
            self._touch()
        if text != before:
            self._reveal = True
            self._touch()

    def select(self, key: Hashable | None) -> None:
        """Put the cursor on the row with this key, now or when that row appears."""
        if key is not None:
            self._wanted = key
            self._reveal = True
            self._touch()

    @property
    def shown(self) -> Sequence[Row]:
        self._arrange()
        return self._shown

    @property
    def row(self) -> Row | None:
        self._arrange()
        return self._shown[self._cursor] if self._shown else None

    def _touch(self) -> None:
        if not self._stale:
            self._stale = True
            if self.is_attached:
                self.call_later(self._arrange)

    def _arrange(self) -> None:
        if not self._stale:
            return
        self._stale = False
        self._shown = self._ordered()
        self._sideways.reveal_sought(self._width)
        was_visible = self._is_visible(self._cursor)
        is_placed = self._place_cursor()
        counted = self._tally()
        # While the filter line shows an error, the count waits: it would replace the error.
        if counted != self._counted and self._wrong is None:
            self._counted = counted
            self.post_message(self.Counted(*counted))
        if self.is_attached:
            self.virtual_size = Size(self._width, len(self._shown) + 1)
            if was_visible or (self._reveal and is_placed):
                self._scroll_to_line(self._cursor, len(self._shown))
            elif self.scroll_y > self.max_scroll_y:
                self._scroll(int(self.max_scroll_y))
            self._reveal = self._reveal and not is_placed
            self._repaint()

    def _ordered(self) -> list[Row]:
        rows = self._query.select(self._rows)
        return self._order.held(rows, self._key, (*self.sorted_by, self.words), self._at)

    def _tally(self) -> tuple[int, int]:
        return len(self._shown), len(self._rows)

    def _place_cursor(self) -> bool:
        """Put the cursor on its row; return False while that row is absent."""
        last = max(0, len(self._shown) - 1)
        if self._wanted is None:
            self._cursor = 0
            return True
        key, wanted = self._key, self._wanted
        if self._cursor < len(self._shown) and key(self._shown[self._cursor]) == wanted:
            return True
        found = next((i for i, row in enumerate(self._shown) if key(row) == wanted), None)
        if found is not None:
            self._cursor = found
            return True
        # Until its row returns, the cursor stays near the old place, or on the first row that matches.
        self._cursor = 0 if self.words else min(self._cursor, last)
        return bool(self.words)

    def _why_empty(self) -> str:
        """Return what the user reads in place of rows: only a filter that was typed can hide them."""
        words = self.words.strip()
        if not self._tally()[1]:
            return self._empty
        # Without a filter they are about to be arranged.
        return f"no {self._noun} matches the filter {words!r}" if words else ""

    def _go(self, index: int) -> None:
        self._arrange()
        if not self._shown:
            return
        self._cursor = max(0, min(index, len(self._shown) - 1))
        row = self._shown[self._cursor]
        self._wanted = None if self._follows_top and self._cursor == 0 else self._key(row)
        self._scroll_to_line(self._cursor, len(self._shown))
        self._repaint()
        self.post_message(self.Moved(row))

    def action_move(self, by: int) -> None:
        self._go(self._cursor + by)

    def action_page(self, by: int) -> None:
        self._go(self._cursor + by * self._page)

    def action_top(self) -> None:
        self._go(0)

    def action_bottom(self) -> None:
        self._go(len(self.shown) - 1)

    def action_choose(self) -> None:
        row = self.row
        if row is not None:
            self.post_message(self.Chosen(row))

    def on_click(self, event: events.Click) -> None:
        """Sort by a clicked title, move the cursor to a clicked row, and open the row under the cursor."""
        event.stop()
        at = event.get_content_offset(self)
        if at is None:
            return
        if at.y == 0:
            self._click_header(at.x)
            return
        index = self.scroll_offset.y + at.y - 1
        if not 0 <= index < len(self.shown):
            return
        if self._wanted is not None and index == self._cursor:
            self.action_choose()
        else:
            self._go(index)

    def on_mount(self) -> None:
        self._stale = True
        self.call_later(self._arrange)

    def on_resize(self) -> None:
        self._sideways.resize(self._width)
        self.virtual_size = Size(self._width, len(self._shown) + 1)
        if self._wanted is not None:
            self._scroll_to_line(self._cursor, len(self._shown))
        self._repaint()

    def draw_line(self, y: int, palette: Palette) -> Strip:
        width = self._width
        if y == 0:
            return self._draw_header(palette)
        index = self.scroll_offset.y + y - 1
        if index < len(self._shown):
            row = self._shown[index]
            tone = self._tone(row, palette) if self._tone else None
            return draw.draw_row(
                self._layout, row, palette, cursor=index == self._cursor, focused=self.has_focus, tone=tone
            )
        if not self._shown and y == min(3, self._height - 1):
            return draw.draw_note(self._why_empty(), width, palette)
        return draw.draw_nothing(width, palette)
