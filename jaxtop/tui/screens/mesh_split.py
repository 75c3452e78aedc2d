"""How the mesh screen divides its room between the cells, the means by axis and the detail of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.tui.draw.mesh.layouts import TALL_BOX, CellDetail, Room
from jaxtop.tui.draw.panes.mean_bars import means_height

if TYPE_CHECKING:
    from jaxtop.tui.draw.mesh.arranger import Arranger

# From this width on the detail is beside the mesh. Otherwise it is below, lower with fewer lines than TALL.
BESIDE = 100
TALL = 18
PANE_WIDTH, PANE_HEIGHT, LOW_PANE = 40, 7, 4
# The lines for the switches and for the legend, and the columns beside the mesh.
LINES, PADDING = 2, 2
# Of the lines of the mesh, the means take those that leave the cells this share of their size.
STILL_LARGE, LARGE = 0.55, 8
# The lines of fewer bars, of columns, and of the sentence alone.
BRIEFER = (9, 7, 6, 1)


class SplitMesh(NamedTuple):
    """Where the detail of the device is, and how many lines the means have."""

    beside: bool
    means: int


def split_of(arranger: Arranger, width: int, height: int) -> SplitMesh:
    """Return how a screen of this size is divided for the devices of an arranger."""
    count = len(arranger.devices)
    beside = width >= BESIDE and count <= (width - PANE_WIDTH - PADDING) * 2 * (height - LINES)
    if beside:
        width -= PANE_WIDTH
    else:
        height -= PANE_HEIGHT if height >= TALL else LOW_PANE
    room = Room(width - PADDING, height - LINES, arranger.id_width)
    return SplitMesh(beside, _lines_of_means(arranger, room))


def _lines_of_means(arranger: Arranger, room: Room) -> int:
    """Return the lines for the means by axis below the mesh: those that leave fewest lines blank.

    The cells need not become small for them.
    """
    axes, plan = arranger.axes, arranger.layout.plan
    whole = plan(room)
    if not axes or whole.height > room.height:
        return 0
    found: list[tuple[int, int]] = []
    for lines in dict.fromkeys((means_height(axes) + 1, *BRIEFER)):
        if lines > means_height(axes) + 1 or room.height <= lines + LINES:
            continue
        less = plan(room._replace(height=room.height - lines))
        blank = room.height - lines - less.height
        if less.tile.level is not whole.tile.level or blank < 0:
            continue
        is_tall = less.tile.level is not CellDetail.BOX or less.tile.height >= min(
            TALL_BOX, whole.tile.height
        )
        if is_tall and less.tile.shape >= STILL_LARGE * min(whole.tile.shape, LARGE):
            found.append((blank // 2, lines))
    return min(found, key=lambda each: (each[0], -each[1]))[1] if found else 0
