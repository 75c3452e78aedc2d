"""The means of a metric by axis as bars or columns side by side, and the sentence about them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text
from textual.color import Color

from jaxtop.tui.core.palette import STEPS
from jaxtop.tui.core.text import LATE
from jaxtop.tui.draw.mesh.means import (
    Axis,
    AxisMeans,
    AxisNames,
    Difference,
    difference,
    mean_of,
    means,
    sentence,
)
from jaxtop.tui.draw.panes.facts import fitted, joined, side_by_side
from jaxtop.tui.draw.sparkline import bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from jaxtop.model import DeviceView
    from jaxtop.tui.draw.ink import Ink
    from jaxtop.tui.draw.reading import MetricReading

# The lines of the title and of the sentence.
TEXT_LINES = 2
# The most bars.
MAX_BARS = 8
# The least width of a chart of bars.
MIN_WIDTH = 26
# The widths of the values, and of the mark after them.
_VALUE, _MARK = 7, 7
_COLUMNS = " ▁▂▃▄▅▆▇█"
_ORDER = ("rows", "columns")
# From this width on, columns have a gap between them.
_WITH_GAP = 3


def means_height(axes: Sequence[Axis]) -> int:
    """Return the lines that the bars of these axes need at most."""
    return TEXT_LINES + min(MAX_BARS, max((len(axis.places) for axis in axes), default=0))


@dataclass(frozen=True)
class MeansContents:
    """The means of a reading by axis, as the picture of the mesh has these axes."""

    axes: Sequence[Axis]
    reading: MetricReading
    devices: Sequence[DeviceView]
    late: frozenset[int]
    ink: Ink
    spoken: AxisNames

    @cached_property
    def means(self) -> list[AxisMeans]:
        """The means by axis: rows, columns, then those of the pages."""
        found = means(self.axes, self.reading)
        roles = [*_ORDER, *(self.spoken.role(each.axis) for each in found)]
        return sorted(found, key=lambda each: roles.index(self.spoken.role(each.axis)))

    @cached_property
    def odd(self) -> Difference | None:
        return difference(self.means, self.reading, self.late)

    def share(self, value: float | None) -> float | None:
        return None if value is None or not self.reading.end else value / self.reading.end

    def style(self, value: float | None, *, on_track: bool = False) -> Style:
        share = self.share(value)
        if share is None or not self.reading.metric.is_amount:
            return self.ink.note
        return _style(self.ink, min(STEPS - 1, int(share * STEPS)), on_track=on_track)


@lru_cache(maxsize=256)
def _style(ink: Ink, step: int, *, on_track: bool) -> Style:
    return ink.style(ink.ramp(step), Color.parse(ink.palette.track) if on_track else None)


def means_lines(contents: MeansContents, width: int, height: int) -> Text:
    """Return the means of as many axes as fit side by side, and the sentence below them."""
    shown = contents.means[: max(1, width // MIN_WIDTH)]
    room = (width - 2 * (len(shown) - 1)) // max(1, len(shown))
    columns = (
        [(room, _chart(contents, each, room, height - TEXT_LINES)) for each in shown]
        if height > TEXT_LINES
        else []
    )
    lines = side_by_side(columns, height - 1)
    words = sentence(contents.means, contents.reading, contents.devices, contents.odd, contents.spoken)
    lines.append(Text(words, contents.ink.style(bold=contents.odd is not None)))
    return joined(fitted(lines, width, height))


def _chart(contents: MeansContents, found: AxisMeans, width: int, height: int) -> list[Text]:
    title = Text.assemble(
        ("mean by ", contents.ink.label),
        (contents.spoken.title(found.axis), contents.ink.figure),
        no_wrap=True,
        end="",
    )
    draw = _bars if len(found.means) <= height else _columns
    return [title, *draw(contents, found, width, height)]


def _bars(contents: MeansContents, found: AxisMeans, width: int, _height: int) -> list[Text]:
    ink, odd, (axis, values) = contents.ink, contents.odd, found
    name = len(str(len(values) - 1))
    room = width - name - 2 - _VALUE - _MARK
    lines = []
    for place, value in enumerate(values):
        is_odd = odd is not None and odd.axis is axis and odd.place == place
        line = Text(f"{place:>{name}}  ", ink.figure if is_odd else ink.note, no_wrap=True, end="")
        line.append(bar(contents.share(value), room), contents.style(value, on_track=True))
        line.append(f"{contents.reading.metric.write(value):>{_VALUE}}", ink.style(bold=is_odd))
        if axis.places[place] and contents.late.issuperset(axis.places[place]):
            line.append(f" {LATE}", ink.style(ink.palette.warning, bold=True))
        elif is_odd:
            line.append(" ◂", ink.figure)
        lines.append(line)
    return lines


def _columns(contents: MeansContents, found: AxisMeans, width: int, height: int) -> list[Text]:
    """Return the means as columns; of several places together where there are more than characters."""
    count = len(found.means)
    per = -(-count // width)
    wide = width // count if per == 1 else 1
    values = [mean_of(found.means[i : i + per]) for i in range(0, count, per)]
    styles = [contents.style(value) for value in values]
    eighths = [_eighths(contents.share(value), height - 1) for value in values]
    drawn = wide if wide < _WITH_GAP else wide - 1
    lines = []
    for row in reversed(range(height - 1)):
        line = Text(no_wrap=True, end="")
        cells = [
            (_COLUMNS[min(8, max(0, each - 8 * row))], style)
            for each, style in zip(eighths, styles, strict=True)
        ]
        for (glyph, style), alike in groupby(cells):
            line.append((glyph * drawn).ljust(wide) * len(list(alike)), style)
        lines.append(line)
    last = str(count - 1)
    end = max(len(last) + 1, (len(values) - 1) * wide + len(last) - 1)
    lines.append(Text(f"0{last:>{min(width - 1, end)}}", contents.ink.note))
    return lines


def _eighths(share: float | None, lines: int) -> int:
    """Return the height of a column; a known value has at least one eighth."""
    return 0 if share is None else max(1, round(share * 8 * lines))
