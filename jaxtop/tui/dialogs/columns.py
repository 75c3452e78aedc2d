"""The dialog that chooses the columns of a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual.screen import ModalScreen
from textual.widgets import SelectionList, Static
from textual.widgets.selection_list import Selection

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from jaxtop.tui.widgets.table import Table


class ColumnPicker(ModalScreen[tuple[str, ...]]):
    """The columns of a table with a mark for each that is shown; it returns their keys in their order."""

    DEFAULT_CSS = """
    ColumnPicker { align: center middle; }
    ColumnPicker Static { width: 44; background: $panel; padding: 0 1; }
    ColumnPicker SelectionList { width: 44; height: auto; max-height: 80%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "close", "Close")]

    def __init__(self, table: Table[Any]) -> None:
        super().__init__()
        self._shown = [column.key for column in table.columns]
        self._offered = table.offered
        choices = [
            Selection(column.title or column.key, column.key, column.key in self._shown)
            for column in self._offered[1:]
        ]
        self._list: SelectionList[str] = SelectionList(*choices)

    def compose(self) -> ComposeResult:
        yield Static("Columns: space or a click shows or hides, Esc closes")
        yield self._list

    def action_close(self) -> None:
        chosen = {self._offered[0].key, *self._list.selected}
        order = [*self._shown, *(each.key for each in self._offered if each.key not in self._shown)]
        keys = tuple(key for key in order if key in chosen)
        self.dismiss(() if keys == tuple(each.key for each in self._offered) else keys)
