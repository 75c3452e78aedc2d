"""The common parts of the screens with one line per device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from jaxtop.model import State, memory_history
from jaxtop.tui import text
from jaxtop.tui.draw.table import Column
from jaxtop.tui.moment import Selection
from jaxtop.tui.screens.base import View
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.widget import Widget

    from jaxtop.model import DeviceView
    from jaxtop.tui.moment import Moment
    from jaxtop.tui.palette import Palette


@dataclass(frozen=True)
class DeviceScene:
    """The data that all rows of one moment share."""

    moment: Moment

    @cached_property
    def has_limits(self) -> bool:
        return any(device.limit_bytes for device in self.moment.devices)


@dataclass(slots=True)
class DeviceRow:
    """One device, with the data that all rows share."""

    device: DeviceView
    scene: DeviceScene

    @property
    def place(self) -> tuple[str, int]:
        """The run and the id of the device, which sort devices of all runs."""
        return self.device.run, self.device.id

    @property
    def run(self) -> str:
        return self.scene.moment.run_names.get(self.device.run, self.device.run)

    @property
    def history(self) -> list[int | None]:
        """The memory of the device over the last samples."""
        return memory_history(self.scene.moment.cluster, self.device.agent, self.device.position)


AnyRow = TypeVar("AnyRow", bound=DeviceRow)
WIDEST_ID = 5


def id_column() -> Column[AnyRow]:
    """Return the column of ids, with the sign of a state other than live if there is room, as on the mesh."""

    def write(row: AnyRow) -> str:
        state, shown = row.device.state, str(row.device.id)
        is_marked = state is not State.LIVE and len(shown) < WIDEST_ID
        return f"{shown}{text.STATE_SIGNS[state]}" if is_marked else shown

    def style(row: AnyRow, palette: Palette) -> str | None:
        state = row.device.state
        return None if state is State.LIVE else palette.of_state(state)

    return Column("id", "id", WIDEST_ID, "right", lambda row: row.place, write, style)


def empty(moment: Moment) -> str:
    """Return why there are no devices."""
    if not moment.hosts:
        return "no devices yet: no host has reported"
    return "no devices yet: JAX is not initialized on any host"


class DeviceTableView(View, Generic[AnyRow]):
    """A screen with a table of devices. Enter opens the mesh."""

    def __init__(
        self,
        columns: tuple[Column[AnyRow], ...],
        understand: Callable[[str], Callable[[AnyRow], bool] | None] | None = None,
    ) -> None:
        super().__init__()
        self.table: Table[AnyRow] = Table(
            columns,
            lambda row: row.device.key,
            noun="device",
            pinned=2,
            sort="id",
            tone=_tone,
            understand=understand,
        )

    def select(self, selection: Selection) -> None:
        """Move to the selected device, or to the first device of the selected host."""
        super().select(selection)
        of_host = (device.key for device in self.moment.devices if device.agent == selection.agent)
        self.table.select(selection.device_key or next(of_host, None))

    @property
    def first_focus(self) -> Widget:
        return self.table

    def on_table_moved(self, message: Table.Moved) -> None:
        message.stop()
        self.selection = Selection(*message.row.device.key)
        self.post_message(View.Selected(self.selection))

    def on_table_chosen(self, message: Table.Chosen) -> None:
        """Open the cell of the device in the mesh."""
        message.stop()
        self.selection = Selection(*message.row.device.key)
        self.post_message(View.Drilled(self.selection, "1"))


def _tone(row: DeviceRow, palette: Palette) -> str | None:
    """Return the muted colour for devices whose figures are not current."""
    return palette.muted if row.device.state.is_silent else None
