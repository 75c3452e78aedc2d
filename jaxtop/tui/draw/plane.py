"""Points and a curve on two scales, such as a roofline: a curve to a dot, points to a character."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.tui.draw.bars import spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.style import Style

    from jaxtop.tui.draw.ink import Ink

    Cells = list[list[tuple[str, Style]]]

# The width of the scale at the left.
SCALE = 9
# The dots of a braille character, by column and then from above.
_DOTS = (0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80)


@dataclass(frozen=True)
class PlotArea:
    """Both scales, and the size in characters."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int
    height: int
    is_logarithmic: bool = False

    def column(self, value: float) -> int:
        return self._cell_of(value, self.x, self.width)

    def row(self, value: float, parts: int = 1) -> int:
        """Return the row from above, in parts of a line."""
        rows = self.height * parts
        return rows - 1 - self._cell_of(value, self.y, rows)

    def value(self, column: float) -> float:
        low, high = map(self._scaled, self.x)
        found = low + column / self.width * (high - low)
        return float(10**found) if self.is_logarithmic else found

    def _cell_of(self, value: float, between: tuple[float, float], count: int) -> int:
        low, high = map(self._scaled, between)
        return min(count - 1, max(0, int((self._scaled(value) - low) / (high - low) * count)))

    def _scaled(self, value: float) -> float:
        return log10(value) if self.is_logarithmic else value


def curve(plane: PlotArea, at: Callable[[float], float | None], style: Style) -> Cells:
    """Return the cells with a curve; it begins where the function has a value."""
    dots = [[0] * plane.width for _ in range(plane.height)]
    before = None
    for x in range(2 * plane.width):
        value = at(plane.value(x / 2))
        if value is None:
            continue
        y = plane.row(value, 4)
        first, last = sorted((y, y if before is None else before))
        for each in range(first, max(last, first + 1)):
            dots[each // 4][x // 2] |= _DOTS[x % 2][each % 4]
        before = y
    return [[(chr(0x2800 + each) if each else " ", style) for each in row] for row in dots]


def with_scale(cells: Cells, marks: Mapping[int, str], ink: Ink) -> list[Text]:
    """Return the lines with the marks of their rows at the left."""
    lines = []
    for y, row in enumerate(cells):
        scale, edge = f"{marks.get(y, ''):>{SCALE}}", "┤" if y in marks else "│"
        lines.append(Text.assemble((scale, ink.note), (edge, ink.divider), spelled(row), no_wrap=True))
    return lines


def axis(plane: PlotArea, marks: Mapping[int, tuple[str, Style]], ink: Ink) -> Text:
    """Return the line below with marks by their column; one without room is left out."""
    line = Text(" " * SCALE + "└" + "─" * plane.width, ink.divider, no_wrap=True)
    for column, (words, style) in marks.items():
        start = SCALE + 1 + column
        end = start + len(words)
        if end <= len(line.plain) and set(line.plain[start:end]) == {"─"}:
            line.plain = line.plain[:start] + words + line.plain[end:]
            line.stylize(style, start, end)
    return line
