"""The base classes of the screens with a table."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from jaxtop.tui.columns.devices import AnyRow, tone
from jaxtop.tui.columns.figures import HISTORY_KEY
from jaxtop.tui.core.moment import Selection
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.widget import Widget

    from jaxtop.model import Figure
    from jaxtop.tui.draw.table import Column
    from jaxtop.tui.widgets.folding import FoldingTable


AnyTable = TypeVar("AnyTable", bound=Table[Any])


class TablePane(ScreenPane, Generic[AnyTable]):
    """A screen with a table."""

    # The figures that the history column can show, by the key of the column that the table is sorted by.
    FOLLOWED: ClassVar[Mapping[str | None, Figure]] = MappingProxyType({})

    def __init__(self, table: AnyTable) -> None:
        super().__init__()
        self.table: AnyTable = table
        # The column that the table was sorted by last. The history column shows its figure.
        self._followed: str | None = None

    @property
    def first_focus(self) -> Widget:
        return self.table

    def _moved(self, _row: Any) -> None:
        self._redraw()

    def _chosen(self, _row: Any) -> None:
        """Open a row."""

    def on_table_moved(self, message: Table.Moved) -> None:
        message.stop()
        self._moved(message.row)

    def on_table_chosen(self, message: Table.Chosen) -> None:
        message.stop()
        self._chosen(message.row)

    def on_folding_table_arranged(self, message: FoldingTable.Arranged) -> None:
        """Draw again, because another row may be under the cursor."""
        message.stop()
        self._redraw()

    def on_columned_view_sorted(self, message: Table.Sorted) -> None:
        """Show the history of the figure that the table is sorted by."""
        message.stop()
        key, _ = self.table.sorted_by
        if self.FOLLOWED and key != HISTORY_KEY:
            self._followed = key
            self.figure = self.FOLLOWED[key].name if key in self.FOLLOWED else None
            self.show(self.moment)


class DeviceTablePane(TablePane[Table[AnyRow]], Generic[AnyRow]):
    """A screen with a table of devices. Enter opens the mesh."""

    def __init__(
        self,
        columns: tuple[Column[AnyRow], ...],
        understand: Callable[[str], Callable[[AnyRow], bool] | None],
    ) -> None:
        super().__init__(
            Table(
                columns,
                lambda row: row.device.key,
                noun="device",
                pinned=2,
                sort="id",
                tone=tone,
                understand=understand,
            )
        )

    def select(self, selection: Selection) -> None:
        super().select(selection)
        of_host = (device.key for device in self.moment.device_views if device.agent == selection.agent)
        self.table.select(selection.device_key or next(of_host, None))

    def _moved(self, row: Any) -> None:
        self.selection = Selection(*row.device.key)
        self.post_message(ScreenPane.Selected(self.selection))
        self._redraw()

    def _chosen(self, row: Any) -> None:
        self.selection = Selection(*row.device.key)
        self.post_message(ScreenPane.Drilled(self.selection, "mesh"))
