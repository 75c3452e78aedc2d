"""The division of the mesh screen between the cells, the means by axis and the detail of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.tui.draw.mesh.layouts import TALL_BOX, CellDetail, Room
from jaxtop.tui.draw.panes.mean_bars import means_height

if TYPE_CHECKING:
    from jaxtop.tui.draw.mesh.arranger import Arranger

# From this width on, the pane is beside the mesh; otherwise it is below.
PANE_BESIDE_WIDTH = 100
# With fewer lines, the pane below is lower.
HIGH_PANE_LINES = 18
# The width of the pane beside the mesh.
PANE_WIDTH = 40
# The lines of the pane below the mesh.
PANE_HEIGHT = 7
# The lines of the pane below the mesh in a low terminal.
LOW_PANE_HEIGHT = 4
# The lines of the switches and of the legend.
SURROUNDING_LINES = 2
# The columns beside the mesh.
PADDING = 2
# The means take lines of the mesh only while its cells keep this share of their size.
MIN_CELL_SHARE = 0.55
# The shape of a large cell: the means may take lines of larger cells.
LARGE_CELL_SHAPE = 8
# The lines of fewer bars, of columns, and of the sentence alone.
BRIEF_MEANS_LINES = (9, 7, 6, 1)


class SplitMesh(NamedTuple):
    """Where the detail of the device is, and how many lines the means have."""

    beside: bool
    means: int


def split_of(arranger: Arranger, width: int, height: int) -> SplitMesh:
    """Return how a screen of this size is divided for the devices of an arranger."""
    count = len(arranger.devices)
    beside = width >= PANE_BESIDE_WIDTH and count <= (width - PANE_WIDTH - PADDING) * 2 * (
        height - SURROUNDING_LINES
    )
    if beside:
        width -= PANE_WIDTH
    else:
        height -= PANE_HEIGHT if height >= HIGH_PANE_LINES else LOW_PANE_HEIGHT
    room = Room(width - PADDING, height - SURROUNDING_LINES, arranger.id_width)
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
    for lines in dict.fromkeys((means_height(axes) + 1, *BRIEF_MEANS_LINES)):
        if lines > means_height(axes) + 1 or room.height <= lines + SURROUNDING_LINES:
            continue
        less = plan(room._replace(height=room.height - lines))
        blank = room.height - lines - less.height
        if less.tile.level is not whole.tile.level or blank < 0:
            continue
        is_tall = less.tile.level is not CellDetail.BOX or less.tile.height >= min(
            TALL_BOX, whole.tile.height
        )
        if is_tall and less.tile.shape >= MIN_CELL_SHARE * min(whole.tile.shape, LARGE_CELL_SHAPE):
            found.append((blank // 2, lines))
    return min(found, key=lambda each: (each[0], -each[1]))[1] if found else 0
