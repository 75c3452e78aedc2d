"""Lines below a header of columns: which columns are in view, and by which of them the lines are sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from textual.geometry import Region
from textual.message import Message
from textual.scroll_view import ScrollView

from jaxtop.tui.core.palette import Palette, palette_of
from jaxtop.tui.draw import table_lines as draw
from jaxtop.tui.draw.table import Column, Row, RowQuery
from jaxtop.tui.widgets.column_scroll import ColumnScroll

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.strip import Strip


class ColumnedView(ScrollView, Generic[Row]):
    """A view with columns, which the user sorts by and scrolls sideways.

    It draws its visible lines only, and refreshes those that changed. The first line is a header: it stays in
    place when the others scroll. A view overrides `draw_line` and `_touch`.
    """

    class Sorted(Message):
        """The user sorted the rows by another column."""

    def __init__(
        self,
        columns: Sequence[Column[Row]],
        pinned: int,
        sort: str | None,
        understand: Callable[[str], Callable[[Any], bool] | None] | None,
    ) -> None:
        super().__init__()
        self._lines: list[Strip] = []
        self._query = RowQuery(columns, sort, understand)
        self._sideways: ColumnScroll[Row] = ColumnScroll(self._query.columns, pinned)

    def draw_line(self, y: int, palette: Palette) -> Strip:
        """Return a line of the view, of which the first is the header."""
        raise NotImplementedError

    def _touch(self) -> None:
        """Have the rows arranged again, as their order may have changed."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[Column[Row], ...]:
        return self._query.columns

    @property
    def offered(self) -> tuple[Column[Row], ...]:
        """All columns, also those that the user does not want to see."""
        return self._query.offered

    @property
    def sorted_by(self) -> tuple[str | None, bool]:
        query = self._query
        return query.sort.key if query.sort else None, query.descending

    @property
    def _layout(self) -> draw.VisibleColumns[Row]:
        return self._sideways.layout

    def width_of(self, key: str) -> int:
        return self._sideways.width_of(key)

    def update_columns(self, columns: Sequence[Column[Row]]) -> None:
        """Replace the columns if they differ; the table stays sorted by the column with the same key."""
        if [each.face for each in columns] != [each.face for each in self._query.offered]:
            self._query.replace_columns(columns)
            self._columns_changed()

    def choose_columns(self, keys: Sequence[str]) -> None:
        """Show the columns with these keys, in this order; without any, show all."""
        self._query.choose(keys)
        self._columns_changed()

    def _columns_changed(self) -> None:
        self._sideways.replace(self.columns, self._width)
        self._touch()

    def sort_by(self, column: Column[Row]) -> None:
        """Sort by this column, in the direction that it declares, and scroll it into view."""
        self._query.sort_by(column)
        self._sideways.reveal(column, self._width)
        self._touch()
        self.post_message(self.Sorted())

    def reveal(self, key: str) -> None:
        """Scroll the column with this key into view, now or when it appears."""
        self._sideways.seek(key)
        self._touch()

    def action_sort(self, by: int) -> None:
        column = self._query.beside_sorted(by)
        if column is not None:
            self.sort_by(column)

    def action_reverse(self) -> None:
        self._query.reverse()
        self._touch()

    def action_shift(self, by: int) -> None:
        if self._sideways.shift(by, self._width):
            self._repaint()

    def _click_header(self, x: int) -> None:
        way = self._layout.way_at(x)
        column = self._layout.column_at(x)
        if way:
            self.action_shift(way)
        elif column is not None and column == self._query.sort:
            self.action_reverse()
        elif column is not None:
            self.sort_by(column)

    def render_line(self, y: int) -> Strip:
        if self._layout.width != self._width:
            self._sideways.lay_out(self._width)
            self._lines = []
        return self._lines[y] if y < len(self._lines) else self.draw_line(y, self._palette)

    def _draw_header(self, palette: Palette) -> Strip:
        key, descending = self.sorted_by
        return draw.draw_header(self._layout, key, descending=descending, palette=palette)

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    @property
    def _height(self) -> int:
        return self.scrollable_content_region.height

    @property
    def _page(self) -> int:
        return max(1, self._height - 1)

    @property
    def _palette(self) -> Palette:
        return palette_of(self.app.theme)

    def _is_visible(self, index: int) -> bool:
        return 0 <= index - self.scroll_offset.y < self._page

    def _scroll(self, y: int) -> None:
        self.scroll_to(y=y, animate=False, force=True, immediate=True)

    def _scroll_to_line(self, index: int, count: int) -> None:
        top = self.scroll_offset.y
        wanted = max(index - self._page + 1, min(top, index))
        wanted = min(wanted, max(0, count - self._page))
        if wanted != top:
            self._scroll(wanted)

    def _repaint(self) -> None:
        if self._layout.width != self._width:
            self._sideways.lay_out(self._width)
        if not self.is_attached:
            return
        before, palette = self._lines, self._palette
        self._lines = [self.draw_line(y, palette) for y in range(self._height)]
        for y, strip in enumerate(self._lines):
            if y >= len(before) or strip != before[y]:
                self.refresh(Region(0, y, self._width, 1))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self._repaint()

    def watch_has_focus(self, value: bool) -> None:
        super().watch_has_focus(value)
        self._repaint()

    def notify_style_update(self) -> None:
        """Discard the drawn lines: their colours belong to the old theme."""
        super().notify_style_update()
        self._lines = []
