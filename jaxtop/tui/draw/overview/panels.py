"""The type of panels of the overview: heading, target, possible heights, and lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.tui.draw.panel import FRAME_HEIGHT, FRAME_WIDTH, Heading, panel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.tui.draw.ink import Ink

# The width of the names of figures in panels: they begin in one column on the whole screen.
NAME = 10


@dataclass(frozen=True)
class OverviewPanel:
    """A panel. `lines` draws it in a width and a number of lines at most; `wants` is how many it can use.

    `brief` is what it says in a terminal without room for panels. With less than `least` lines it is left
    out. One that `grows` takes lines that no other needs.
    """

    heading: Heading
    screen: str
    wants: Callable[[int], int]
    lines: Callable[[int, int], Sequence[Text]]
    brief: Callable[[int], Sequence[Text]]
    least: int = 1
    grows: bool = False

    def height(self, width: int) -> int:
        """Return the height with its frame in this width."""
        return max(self.least, self.wants(width - FRAME_WIDTH)) + FRAME_HEIGHT

    def draw(self, width: int, height: int, ink: Ink) -> list[Text]:
        """Return the panel with its frame."""
        lines = self.lines(width - FRAME_WIDTH, height - FRAME_HEIGHT)
        return panel(self.heading, lines, (width, height), ink)


def row_name(name: str, ink: Ink, width: int = NAME) -> Text:
    """Return the name of a figure, in the width that all names have."""
    return Text(f"{name:<{width}}", ink.label, no_wrap=True)


def fixed(lines: Sequence[Text]) -> tuple[Callable[[int], int], Callable[[int, int], Sequence[Text]]]:
    """Return `wants` and `lines` of a panel whose lines do not depend on its size."""
    return lambda _: len(lines), lambda _, height: lines[:height]


def rows_of(cells: Sequence[Sequence[Text | str]], ink: Ink, width: int, left: int = 1) -> list[Text]:
    """Return rows of cells as aligned lines; the first `left` columns are aligned left, the others right.

    The first row has the titles. Columns without room are left out, the last ones first.
    """
    if not cells:
        return []
    texts = [[each if isinstance(each, Text) else Text(each) for each in row] for row in cells]
    widths = [max(each.cell_len for each in column) for column in zip(*texts, strict=True)]
    while len(widths) > 1 and sum(widths) + 2 * (len(widths) - 1) > width:
        widths.pop()
    lines = []
    for i, row in enumerate(texts):
        line = Text(no_wrap=True)
        for column, size in enumerate(widths):
            cell = row[column].copy()
            if not i:
                cell.stylize(ink.note)
            gap = " " * (size - cell.cell_len)
            line.append("  " if column else "")
            if column < left:
                line.append_text(cell).append(gap)
            else:
                line.append(gap).append_text(cell)
        lines.append(line)
    return lines
