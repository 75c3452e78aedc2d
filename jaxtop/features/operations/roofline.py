"""The roofline of a program: what its operations do in a second against how much they do with each byte."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.features.operations.kinds_bar import colour_of, letter_of
from jaxtop.features.operations.model import COLLECTIVE
from jaxtop.tui.draw.bars import pair, spelled
from jaxtop.tui.draw.panel import FRAME_HEIGHT, FRAME_WIDTH, Heading, panel, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from jaxtop.features.operations.model import OperationView, ProgramTime
    from jaxtop.tui.draw.ink import Ink

# The least size of the panel, the width of the scale, and the characters of a label below.
LEAST_WIDTH, LEAST_HEIGHT, SCALE, LABEL = 40, 8, 9, 10
# The dots of a braille character, by column and then from above.
_DOTS = (0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80)
POINT, CHOSEN, RIDGE = "●", "◆", "▲"
NO_RATES = "not drawn: what the device can do in a second is unknown; measure it with `jaxtop probe`"
NO_POINTS = "not drawn: the compiler's text gives no operation both flops and bytes"


@dataclass(frozen=True)
class _Plane:
    """Both scales, logarithmic, and the size in characters."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int
    height: int

    def column(self, value: float) -> int:
        return self._at(value, self.x, self.width)

    def row(self, value: float, parts: int = 1) -> int:
        """Return the row from above, in parts of a line."""
        rows = self.height * parts
        return rows - 1 - self._at(value, self.y, rows)

    def value(self, column: float) -> float:
        low, high = self.x
        return float(10 ** (log10(low) + column / self.width * (log10(high) - log10(low))))

    @staticmethod
    def _at(value: float, between: tuple[float, float], count: int) -> int:
        low, high = (log10(each) for each in between)
        return min(count - 1, max(0, int((log10(value) - low) / (high - low) * count)))


@lru_cache(maxsize=4)
def roofline(time: ProgramTime, chosen: OperationView, ink: Ink, width: int, height: int) -> list[Text]:
    """Return the panel; a sentence where the roofline cannot be drawn, and nothing without room."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return []
    flops, moved = time.rates.flops, time.rates.bytes
    points = [
        each
        for each in time.operations
        if each.kind != COLLECTIVE and each.flops and each.bytes and each.time_us
    ]
    if not flops or not moved or not points:
        words = wrapped(NO_RATES if points else NO_POINTS, width - FRAME_WIDTH, 2)
        lines = [Text(each, ink.note) for each in words]
        return panel("Roofline", lines, (width, len(lines) + FRAME_HEIGHT), ink)
    ridge = flops / moved
    intensities = [ridge, *map(_intensity, points)]
    rates = [flops, *map(_rate, points)]
    plane = _Plane(
        (min(intensities) / 2, max(intensities) * 2),
        (min(rates) / 2, flops * 1.5),
        width - FRAME_WIDTH - SCALE - 1,
        height - FRAME_HEIGHT - 2,
    )
    cells = _roof(plane, flops, moved, ink)
    for each in sorted(points, key=lambda each: (each is chosen, each.time_us)):
        style = ink.accent if each is chosen else pair(ink, colour_of(each.kind, ink.palette))
        sign = CHOSEN if each is chosen else letter_of(each.kind) if ink.plain else POINT
        cells[plane.row(_rate(each))][plane.column(_intensity(each))] = sign, style
    marks = {plane.row(flops): units.operations(flops), plane.height - 1: units.operations(plane.y[0])}
    lines = [
        Text.assemble(
            (f"{marks.get(y, ''):>{SCALE}}", ink.note),
            ("┤" if y in marks else "│", ink.divider),
            spelled(row),
        )
        for y, row in enumerate(cells)
    ]
    sources = " and ".join(dict.fromkeys(filter(None, (time.rates.flops_source, time.rates.bytes_source))))
    limits = f"{units.operations(flops)}, {units.bandwidth(moved)}"
    return panel(
        Heading("Roofline", limits, sources), [*lines, *_axis(plane, ridge, ink)], (width, height), ink
    )


def _intensity(view: OperationView) -> float:
    return (view.flops or 0) / (view.bytes or 1)


def _rate(view: OperationView) -> float:
    return (view.flops or 0) / view.time_us * 1e6


def _roof(plane: _Plane, flops: float, moved: float, ink: Ink) -> list[list[tuple[str, Style]]]:
    """Return the cells with the line that no operation can be above, to a dot."""
    dots = [[0] * plane.width for _ in range(plane.height)]
    before = None
    for x in range(2 * plane.width):
        at = plane.row(min(flops, moved * plane.value(x / 2)), 4)
        first, last = sorted((at, at if before is None else before))
        for y in range(first, max(last, first + 1)):
            dots[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
        before = at
    style = ink.style(ink.palette.trend)
    return [[(chr(0x2800 + each) if each else " ", style) for each in row] for row in dots]


def _axis(plane: _Plane, ridge: float, ink: Ink) -> list[Text]:
    """Return the line with the ridge and the powers of ten, and what the axis is."""
    words = [(value, f"{value:g}") for value in _powers(plane)]
    line = Text(" " * SCALE + "└" + "─" * plane.width, ink.divider, no_wrap=True)
    for value, name in words:
        _put(line, SCALE + 1 + plane.column(value), name, ink.note)
    _put(line, SCALE + 1 + plane.column(ridge), RIDGE, ink.bold)
    meaning = f"flops a byte   {RIDGE} ridge {units.plain(ridge)}"
    return [line, Text(" " * (SCALE + 1) + meaning, ink.label, no_wrap=True)]


def _powers(plane: _Plane) -> Sequence[float]:
    first, last = ceil(log10(plane.x[0])), floor(log10(plane.x[1]))
    step = max(1, ceil((last - first + 1) * LABEL / plane.width))
    return [float(10**power) for power in range(first, last + 1, step)]


def _put(line: Text, at: int, words: str, style: Style) -> None:
    if at + len(words) <= len(line.plain):
        line.plain = line.plain[:at] + words + line.plain[at + len(words) :]
        line.stylize(style, at, at + len(words))
