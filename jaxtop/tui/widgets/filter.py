"""The filter of a table: the line in which the user types it, and the table above."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic

from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from jaxtop.tui.draw.table import Row
from jaxtop.tui.filters.expressions import ends_in_word

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from jaxtop.tui.widgets.table import Table

CONDITIONS = "words, or conditions: {}"


class FilterInput(Input):
    """The input of the filter; the arrow keys return to the rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep filter"),
        Binding("up,down", "submit", "Back to the rows", show=False),
    ]


class FilteredTable(Vertical, Generic[Row]):
    """A table and its filter. The filter line is visible while the user types and while a filter is set."""

    DEFAULT_CSS = """
    FilteredTable { height: 1fr; }
    FilteredTable #filter { height: 1; background: $surface; display: none; }
    FilteredTable.filtering #filter { display: block; }
    FilteredTable #filter Static { width: auto; color: $foreground-muted; }
    FilteredTable #filter #slash { color: $accent; text-style: bold; padding: 0 1; }
    FilteredTable #filter FilterInput { width: 1fr; padding: 0; }
    FilteredTable #filter FilterInput, FilteredTable #filter FilterInput:focus { background: $surface; }
    FilteredTable #filter #count { padding: 0 1; color: $foreground; }
    FilteredTable #filter #count.wrong { color: $error; }
    FilteredTable #filter #clear { padding: 0 1; }
    FilteredTable #filter #clear:hover { color: $foreground; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "clear", "Clear filter"),
    ]

    def __init__(self, table: Table[Row], placeholder: str = "words to search for") -> None:
        super().__init__()
        self.table = table
        self._input = FilterInput(placeholder=placeholder, compact=True, select_on_focus=False)
        self._count = Static(id="count")
        # Whether the line ends in a word that no row contains: until the user stops typing, the rows stay.
        self._is_unfinished = False

    def compose(self) -> ComposeResult:
        yield self.table
        with Horizontal(id="filter"):
            yield Static("/", id="slash")
            yield self._input
            yield self._count
            yield Static("Esc clears", id="clear")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable Esc only while the filter line is open, and `/` only while the input lacks the focus."""
        if action == "clear":
            return self.has_class("filtering")
        if action == "filter":
            return not self._input.has_focus
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        self.add_class("filtering")
        self._input.focus()

    def set(self, words: str) -> None:
        """Filter by these words, as if the user had typed them."""
        self.add_class("filtering")
        self._input.value = words
        self.refresh_bindings()

    def action_clear(self) -> None:
        self._input.value = ""
        self.table.filter_by("")
        self.remove_class("filtering")
        self.table.focus()
        self.refresh_bindings()

    def on_click(self, event: events.Click) -> None:
        if event.widget is not None and event.widget.id == "clear":
            self.action_clear()

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        text, before = message.value, self.table.words
        self.table.filter_by(text)
        self._is_unfinished = self._input.has_focus and ends_in_word(text) and not self.table.shown
        if self._is_unfinished:
            self.table.filter_by(before)
            self._count.update("no match yet")
            self._count.remove_class("wrong")

    def _finish(self) -> None:
        if self._is_unfinished:
            self._is_unfinished = False
            self.table.filter_by(self._input.value)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self._finish()
        self.table.focus()
        if self.table.words.strip():
            # The table must post it: a message posted in this handler would not bubble past this widget.
            self.table.call_later(self.table.action_move, 0)

    def on_descendant_blur(self) -> None:
        """Apply the filter when its line loses the focus; hide the line if it is empty."""
        if not self._input.has_focus:
            self._finish()
        if not self._input.has_focus and not self._input.value.strip():
            self.remove_class("filtering")
            self.refresh_bindings()

    def on_table_counted(self, message: Table.Counted) -> None:
        message.stop()
        if self._is_unfinished:
            return
        self._count.update(f"{message.shown:,} of {message.total:,}")
        self._count.remove_class("wrong")

    def on_table_refused(self, message: Table.Refused) -> None:
        """Show the error in place of the count; the rows stay as they were."""
        message.stop()
        self._count.update(f"✗ {message.wrong}")
        self._count.add_class("wrong")
