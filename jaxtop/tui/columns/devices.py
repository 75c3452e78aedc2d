"""The rows and columns that the screens with one line per device share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from jaxtop.model import DeviceView, State
from jaxtop.tui.core import text
from jaxtop.tui.draw.table import Column

if TYPE_CHECKING:
    from jaxtop.tui.columns.host_row import HostRow
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.core.palette import Palette


@dataclass(frozen=True)
class DeviceRowContext:
    """The data that all rows of one moment share."""

    moment: Moment

    @cached_property
    def has_limits(self) -> bool:
        return any(device.limit_bytes for device in self.moment.device_views)


@dataclass(slots=True)
class DeviceRow:
    """One device, with the data that all rows share."""

    device: DeviceView
    context: DeviceRowContext

    @property
    def place(self) -> tuple[str, int]:
        return self.device.run, self.device.id

    @property
    def state(self) -> State:
        return self.device.state

    @property
    def run(self) -> str:
        return self.context.moment.run_name(self.device.run)


AnyRow = TypeVar("AnyRow", bound=DeviceRow)
WIDEST_ID = 5


def id_column() -> Column[AnyRow]:
    """Return the column of ids, with the sign of a state other than live if there is room, as on the mesh."""

    def write(row: AnyRow) -> str:
        state, shown = row.state, str(row.device.id)
        is_marked = state is not State.LIVE and len(shown) < WIDEST_ID
        return f"{shown}{text.STATE_SIGNS[state]}" if is_marked else shown

    def style(row: AnyRow, palette: Palette) -> str | None:
        return None if row.state is State.LIVE else palette.state_colour(row.state)

    return Column("id", "id", WIDEST_ID, "right", lambda row: row.place, write, style)


def empty(moment: Moment) -> str:
    if not moment.host_views:
        return "no devices yet: no process has reported"
    return "no devices yet: JAX is not initialized in any process"


def tone(row: DeviceRow | HostRow, palette: Palette) -> str | None:
    """Return the muted colour for devices and hosts whose figures are not current."""
    return palette.muted if row.state.is_silent else None
