"""A large plot: lines over time in braille dots, axes, and letters that identify the lines."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from jaxtop.model import Unit
from jaxtop.tui.draw.bars import spelled
from jaxtop.tui.draw.marks import put, put_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.style import Style

    from jaxtop.tui.draw.ink import Ink
    from jaxtop.tui.draw.marks import Mark

    Points = Sequence[tuple[float, float | None]]

LETTERS = "abcdefgh"
# The least span of the axis, as a share of the largest value: small changes must look small.
SMALLEST_SPAN = 0.1
# A limit is drawn when a value reaches this share of it.
NEAR_LIMIT = 0.6
# Samples this many times farther apart than usual are not joined: what was between them is unknown.
GAP = 3.5
_BRAILLE = 0x2800
# The distances between two labels of the time axis, in seconds, and the least one in characters.
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400)
_CLOCK, _CLOCK_ROOM = "%H:%M:%S", 14
_ROWS_A_LABEL, _ROOM_FOR_LETTERS = 3, 4
# From this width on, the last values stand at the ends of the lines.
_WITH_VALUES = 70
# The ends of the axes are multiples of about such parts of their lengths. Otherwise each sample would move
# them, and with them all lines.
_TIME_PARTS, _VALUE_PARTS = 12, 16
# The dots of the left and of the right half of a character, from above.
_LEFT, _RIGHT = (0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80)


@dataclass(frozen=True)
class PlotLine:
    """A line of the plot: the name of its device or host, its points, and whether it is the chosen one."""

    name: str
    points: Points
    is_chosen: bool = False

    @property
    def known(self) -> list[float]:
        return [value for _, value in self.points if value is not None]

    def value_at(self, when: float) -> float | None:
        return min(self.points, key=lambda point: abs(point[0] - when), default=(0.0, None))[1]


@dataclass(frozen=True)
class PlotFrame:
    """The range of times and values that is drawn, and the position and size of the plot."""

    start: float
    end: float
    low: float
    high: float
    x: int = 0
    width: int = 1
    height: int = 1

    def time_at(self, column: int) -> float:
        return self.start + (column + 0.5) / self.width * (self.end - self.start)

    def column(self, at: float) -> int:
        share = (at - self.start) / (self.end - self.start)
        return min(self.width - 1, max(0, int(share * self.width)))

    def row(self, value: float) -> int:
        share = (value - self.low) / (self.high - self.low)
        return min(self.height - 1, max(0, self.height - 1 - int(share * self.height)))


@dataclass(frozen=True)
class _Axes:
    """What is around the lines of a plot: labels of values by row, the row of the limit, the last values."""

    frame: PlotFrame
    labels: Mapping[int, str]
    limit_row: int | None
    lasts: Sequence[str]
    # The width of what is beside the lines: the labels on the left, letters and last values on the right.
    left: int
    room: int

    @classmethod
    def of(
        cls,
        lines: Sequence[PlotLine],
        width: int,
        height: int,
        *,
        unit: Unit,
        write: Callable[[float | None], str],
        limit: float | None,
    ) -> _Axes | None:
        """Return the axes for this size; None without values or space."""
        reach = extent(lines, limit)
        if reach is None or width < 24 or height < 4:
            return None
        rows = height - 2
        is_binary = unit in (Unit.BYTES, Unit.BYTES_PER_SECOND)
        marks = ticks(*reach[2:], max(2, rows // _ROWS_A_LABEL), binary=is_binary)
        labels = {value: write(value) for value in marks}
        lasts = [write(line.known[-1]) if line.known else "" for line in lines]
        left = max(map(len, labels.values()), default=0) + 1
        room = _ROOM_FOR_LETTERS
        if width >= _WITH_VALUES:
            room = max(room, *(len(each) + 3 for each in lasts))
        frame = PlotFrame(*reach, x=left + 1, width=width - left - 1 - room, height=rows)
        limit_row = frame.row(limit) if limit is not None and frame.low <= limit <= frame.high else None
        by_row = {frame.row(value): label for value, label in labels.items()}
        return cls(frame, by_row, limit_row, lasts, left, room)

    def label(self, row: int, ink: Ink) -> Text:
        """Return the start of a row: its label, if it has one, and the axis."""
        text = Text(f"{self.labels.get(row, ''):>{self.left}}", ink.note, no_wrap=True, end="")
        return text.append("┤" if row in self.labels else "│", ink.divider)


class DrawnPlot(NamedTuple):
    """The text to show, the number of lines above the plot, and the frame of the plot."""

    text: Text
    above: int = 0
    frame: PlotFrame | None = None


def extent(lines: Sequence[PlotLine], limit: float | None) -> tuple[float, float, float, float] | None:
    """Return the range of times and values of the lines; None if there is nothing to draw."""
    known = [at for line in lines for at, value in line.points if value is not None]
    if not known:
        return None
    values = [value for line in lines for value in line.known]
    began = min(known)
    times = [at for line in lines for at, _ in line.points if at >= began]
    low, high = min(values), max(values)
    if limit is not None and high >= NEAR_LIMIT * limit:
        high = max(high, limit)
    if 0 <= low < high / 2:
        low = 0.0  # otherwise a small change at a high level would be invisible
    margin = max(0.0, SMALLEST_SPAN * (abs(high) or 1e-9) - (high - low)) / 2 or (high - low) * 0.04
    bottom, top = low - margin if low else 0.0, high + margin
    step = _round_step((top - bottom) / _VALUE_PARTS)
    bottom, top = math.floor(bottom / step) * step, math.ceil(top / step) * step
    length = (max(times) - min(times)) / _TIME_PARTS
    every = next((each for each in _TIME_STEPS if each >= length), _TIME_STEPS[-1])
    start, end = math.floor(min(times) / every) * every, math.ceil(max(times) / every) * every
    return start, max(end, start + 1.0), bottom if low < 0 else max(0.0, bottom), top


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(each * power for each in (1.0, 2.0, 5.0, 10.0) if each * power >= least * 0.999)


def ticks(low: float, high: float, count: int, *, binary: bool) -> list[float]:
    rough = (high - low) / max(1, count)
    base = 1024.0 if binary else 10.0
    power = base ** math.floor(math.log(rough, base))
    steps = [2.0**i for i in range(11)] if binary else (1.0, 2.0, 2.5, 5.0, 10.0)
    step = next((power * each for each in steps if power * each >= rough * 0.999), power * base)
    first = math.ceil(low / step)
    return [each * step for each in range(first, math.floor(high / step) + 1)]


def plot(
    lines: Sequence[PlotLine],
    ink: Ink,
    width: int,
    height: int,
    *,
    unit: Unit,
    write: Callable[[float | None], str],
    limit: float | None = None,
    pointed: float | None = None,
    marks: Sequence[Mark] = (),
    has_letters: bool = True,
) -> tuple[list[Text], PlotFrame | None]:
    """Draw the plot with its axes for this size. Without values or space, return no lines and no frame."""
    axes = _Axes.of(lines, width, height, unit=unit, write=write, limit=limit)
    if axes is None:
        return [], None
    frame = axes.frame
    canvas = _canvas(lines, frame)
    is_filled = len(lines) == 1
    if is_filled:
        canvas = _filled(canvas)
    ends = _ends(lines, frame) if has_letters else {}
    styles = [style_of(number, ink, chosen=line.is_chosen) for number, line in enumerate(lines)]
    seen = [each for each in marks if frame.start <= each.at <= frame.end]
    begun = {frame.column(each.at) for each in seen if each.severity.rank}
    drawn = []
    for row, cells in enumerate(canvas):
        if is_filled:
            styles = [ink.by_height((frame.height - row) / frame.height)]
        blank = ("╌", ink.style(ink.palette.bad)) if row == axes.limit_row else (" ", ink.blank)
        line = axes.label(row, ink)
        line.append_text(
            spelled(
                (chr(_BRAILLE + dots), styles[who]) if dots else ("┊", ink.divider) if x in begun else blank
                for x, (dots, who) in enumerate(cells)
            )
        )
        line.append_text(_ending(ends.get(row, ""), axes, lines, ink))
        drawn.append(line)
    return [*drawn, *_time_axis(frame, axes.left, ink, pointed, seen)], frame


def _ending(letters: str, axes: _Axes, lines: Sequence[PlotLine], ink: Ink) -> Text:
    """Return what is where lines end: the letter of one with its last value, or the letters of several."""
    ending = Text(no_wrap=True, end="")
    for letter in letters if len(letters) <= _ROOM_FOR_LETTERS else letters[: _ROOM_FOR_LETTERS - 1]:
        number = LETTERS.index(letter)
        ending.append(letter, style_of(number, ink, chosen=lines[number].is_chosen))
    if len(letters) > _ROOM_FOR_LETTERS:
        ending.append("…", ink.note)
    if len(letters) == 1 and axes.room > _ROOM_FOR_LETTERS:
        number = LETTERS.index(letters)
        ending.append(f" {axes.lasts[number]}", ink.figure if lines[number].is_chosen else ink.label)
    return ending


def _filled(canvas: list[list[tuple[int, int]]]) -> list[list[tuple[int, int]]]:
    """Return the dots of a line with all dots below it."""
    under = [[False, False] for _ in canvas[0]]
    found = []
    for row in canvas:
        cells = []
        for (dots, _), is_under in zip(row, under, strict=True):
            filled = 0
            for half, column in enumerate((_LEFT, _RIGHT)):
                for dot in column:
                    is_under[half] = is_under[half] or bool(dots & dot)
                    filled |= dot * is_under[half]
            cells.append((filled, 0))
        found.append(cells)
    return found


def summary(line: PlotLine) -> tuple[float | None, ...]:
    known = line.known
    if not known:
        return (None,) * 4
    return (line.points[-1][1] if line.points else None), min(known), fmean(known), max(known)


def style_of(number: int, ink: Ink, *, chosen: bool) -> Style:
    """Return the style of a line; colours only repeat what the letters show."""
    return ink.accent if chosen else ink.style(ink.palette.category_colour(number))


def _ends(lines: Sequence[PlotLine], frame: PlotFrame) -> dict[int, str]:
    found: dict[int, str] = {}
    for letter, line in zip(LETTERS, lines, strict=False):
        if line.known:
            row = frame.row(line.known[-1])
            found[row] = found.get(row, "") + letter
    return found


def _canvas(lines: Sequence[PlotLine], frame: PlotFrame) -> list[list[tuple[int, int]]]:
    """Return the dots of each character and the number of its line; other lines never hide the chosen one."""
    cells = [[(0, -1)] * frame.width for _ in range(frame.height)]
    for number in sorted(range(len(lines)), key=lambda number: lines[number].is_chosen):
        for y, row in _dots(tuple(lines[number].points), frame):
            for x, dots in enumerate(row):
                if dots:
                    cells[y][x] = cells[y][x][0] | dots, number
    return cells


@lru_cache(maxsize=32)
def _dots(points: Points, frame: PlotFrame) -> list[tuple[int, list[int]]]:
    """Return one line as dots, in the rows that it touches; the result is cached."""
    from plotille import Canvas  # the import takes 20 ms and waits for the first plot

    known = [value for _, value in points if value is not None]
    if not known:
        return []
    top, bottom, step = frame.row(max(known)), frame.row(min(known)), (frame.high - frame.low) / frame.height
    low, high = (frame.high - step * (row + 1 - is_top) for row, is_top in ((bottom, False), (top, True)))
    canvas = Canvas(frame.width, bottom - top + 1, frame.start, low, frame.end, high)
    inside = canvas.xmax_inside, canvas.ymax_inside
    for run in _runs(points):
        placed = [(min(at, inside[0]), min(max(value, low), inside[1])) for at, value in run]
        canvas.point(*placed[0])
        for before, after in pairwise(placed):
            canvas.line(*before, *after)
    rows = canvas.plot("\n").split("\n")
    return [(top + y, [ord(each) - _BRAILLE for each in row]) for y, row in enumerate(rows)]


def _runs(points: Points) -> Iterator[list[tuple[float, float]]]:
    """Return the known points, split where a value is unknown or samples are missing."""
    gaps = [later - at for (at, _), (later, _) in pairwise(points)]
    usual = median(gaps or [1.0])
    run: list[tuple[float, float]] = []
    for i, (at, value) in enumerate(points):
        if run and (value is None or _is_hole(gaps, i - 1, usual)):
            yield run
            run = []
        if value is not None:
            run.append((at, value))
    if run:
        yield run


def _is_hole(gaps: Sequence[float], i: int, usual: float) -> bool:
    """Return whether samples are missing. If a neighbouring gap is as long, the interval is just longer."""
    around = max((usual, *gaps[max(0, i - 1) : i], *gaps[i + 1 : i + 2]))
    return gaps[i] > GAP * around


def _time_axis(
    frame: PlotFrame, left: int, ink: Ink, pointed: float | None, happened: Sequence[Mark]
) -> list[Text]:
    length = frame.end - frame.start
    most = max(1, frame.width // _CLOCK_ROOM)
    step = next((each for each in _TIME_STEPS if length / each <= most), _TIME_STEPS[-1])
    offset = time.localtime(frame.start).tm_gmtoff
    first = math.ceil((frame.start + offset) / step) * step - offset
    times = [first + i * step for i in range(math.floor((frame.end - first) / step) + 1)]
    marks = {frame.column(at): at for at in times}
    cells, words = [("┬" if x in marks else "─", ink.divider) for x in range(frame.width)], ""
    for x, at in marks.items():
        label = time.strftime(_CLOCK, time.localtime(at))
        begin = max(0, min(x - len(label) // 2, frame.width - len(label)))
        if begin >= len(words) + (1 if words else 0):
            words = words.ljust(begin) + label
    put_marks(cells, happened, frame.column, (0, frame.width), ink)
    if pointed is not None:
        put(cells, frame.column(pointed), "▲", ink.figure)
    drawn = Text(" " * left + "└", ink.divider, no_wrap=True, end="")
    return [drawn.append_text(spelled(cells)), Text(" " * (left + 1) + words, ink.note, no_wrap=True, end="")]
