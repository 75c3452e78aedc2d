"""The roofline of a program: what its operations do in a second against how much they do with each byte."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.features.operations.kinds_bar import colour_of, letter_of
from jaxtop.features.operations.model import COLLECTIVE
from jaxtop.tui.draw.bars import pair, spelled
from jaxtop.tui.draw.panel import FRAME_HEIGHT, FRAME_WIDTH, Heading, panel, wrapped
from jaxtop.tui.draw.plane import SCALE, PlotArea, axis, curve, with_scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from jaxtop.features.operations.model import OperationView, ProgramTime
    from jaxtop.tui.draw.ink import Ink

# The least width of the panel.
MIN_WIDTH = 40
# The least height of the panel.
MIN_HEIGHT = 8
# The width of a label below.
LABEL = 10
POINT, CHOSEN, RIDGE = "●", "◆", "▲"
NO_RATES = "not drawn: what the device can do in a second is unknown; measure it with `jaxtop probe`"
NO_POINTS = "not drawn: the compiler's text gives no operation both flops and bytes"


@lru_cache(maxsize=4)
def roofline(time: ProgramTime, chosen: OperationView, ink: Ink, width: int, height: int) -> list[Text]:
    """Return the panel; a sentence where the roofline cannot be drawn, and nothing without room."""
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        return []
    flops, moved = time.rates.flops, time.rates.bytes
    points = _points(time)
    if not flops or not moved or not points:
        words = wrapped(NO_RATES if points else NO_POINTS, width - FRAME_WIDTH, 2)
        lines = [Text(each, ink.note) for each in words]
        return panel("Roofline", lines, (width, len(lines) + FRAME_HEIGHT), ink)
    ridge = flops / moved
    intensities = [ridge, *map(_intensity, points)]
    rates = [flops, *map(_rate, points)]
    plane = PlotArea(
        (min(intensities) / 2, max(intensities) * 2),
        (min(rates) / 2, flops * 1.5),
        width - FRAME_WIDTH - SCALE - 1,
        height - FRAME_HEIGHT - 2,
        is_logarithmic=True,
    )
    cells = curve(plane, lambda intensity: min(flops, moved * intensity), ink.trend)
    for each in sorted(points, key=lambda each: (each is chosen, each.time_us)):
        cells[plane.row(_rate(each))][plane.column(_intensity(each))] = _point(each, chosen, ink)
    marks = {plane.row(flops): units.operations(flops), plane.height - 1: units.operations(plane.y[0])}
    lines = [*with_scale(cells, marks, ink), *_axis_lines(plane, ridge, ink)]
    sources = " and ".join(dict.fromkeys(filter(None, (time.rates.flops_source, time.rates.bytes_source))))
    limits = f"{units.operations(flops)}, {units.bandwidth(moved)}"
    return panel(Heading("Roofline", limits, sources), lines, (width, height), ink)


def ridge_line(time: ProgramTime, chosen: OperationView, ink: Ink, width: int) -> list[Text]:
    """Return the roofline as one line: operations on the left of the ridge are memory-bound."""
    flops, moved, points = time.rates.flops, time.rates.bytes, _points(time)
    before, after = "memory ", " compute"
    if not flops or not moved or not points or width < MIN_WIDTH:
        return []
    intensities = [flops / moved, *map(_intensity, points)]
    across = min(intensities) / 2, max(intensities) * 2
    plane = PlotArea(across, across, width - len(before) - len(after), 1, is_logarithmic=True)
    cells = [("─", ink.divider)] * plane.width
    cells[plane.column(flops / moved)] = RIDGE, ink.figure
    for each in sorted(points, key=lambda each: (each is chosen, each.time_us)):
        cells[plane.column(_intensity(each))] = _point(each, chosen, ink)
    return [Text.assemble((before, ink.label), spelled(cells), (after, ink.label), no_wrap=True, end="")]


def _points(time: ProgramTime) -> list[OperationView]:
    return [
        each
        for each in time.operations
        if each.kind != COLLECTIVE and each.flops and each.bytes and each.time_us
    ]


def _point(view: OperationView, chosen: OperationView, ink: Ink) -> tuple[str, Style]:
    if view is chosen:
        return CHOSEN, ink.accent
    return letter_of(view.kind) if ink.plain else POINT, pair(ink, colour_of(view.kind, ink.palette))


def _intensity(view: OperationView) -> float:
    return (view.flops or 0) / (view.bytes or 1)


def _rate(view: OperationView) -> float:
    return (view.flops or 0) / view.time_us * 1e6


def _axis_lines(plane: PlotArea, ridge: float, ink: Ink) -> list[Text]:
    """Return the line with the ridge and the powers of ten, and what the axis is."""
    marks = {plane.column(value): (f"{value:g}", ink.note) for value in _powers(plane)}
    marks = {plane.column(ridge): (RIDGE, ink.figure)} | marks
    meaning = f"flops a byte   {RIDGE} ridge {units.plain(ridge)}"
    return [axis(plane, marks, ink), Text(" " * (SCALE + 1) + meaning, ink.label, no_wrap=True)]


def _powers(plane: PlotArea) -> Sequence[float]:
    first, last = ceil(log10(plane.x[0])), floor(log10(plane.x[1]))
    step = max(1, ceil((last - first + 1) * LABEL / plane.width))
    return [float(10**power) for power in range(first, last + 1, step)]
