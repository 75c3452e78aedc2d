"""The texts of a cell: the id of its device, the value of the metric, and the sign of the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.tui.core import text
from jaxtop.tui.draw.reading import CellCode, state_of_code

if TYPE_CHECKING:
    from jaxtop.tui.draw.mesh.grid_contents import GridContents


def texts(contents: GridContents, device: int, room: int) -> tuple[str, str]:
    """Return the id and the value; for a place without a device what is known of it."""
    if device < 0:
        return ("?", "absent") if contents.reading.codes[device] == CellCode.ABSENT else (" ", "")
    view = contents.devices[device]
    return str(view.id), contents.reading.metric.cell_text(view, contents.reading.values[device], room)


def sign_of(code: int) -> str:
    state = state_of_code(code)
    return " " if state is None else text.STATE_SIGNS[state]
