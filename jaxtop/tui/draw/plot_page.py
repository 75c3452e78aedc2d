"""The page of the plot: its switches, its title, the plot, and a table of the lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text

from jaxtop.base import units
from jaxtop.base.names import shorten
from jaxtop.tui.core import text
from jaxtop.tui.core.text import writer
from jaxtop.tui.draw.legend import printable
from jaxtop.tui.draw.panes.facts import fitted, joined
from jaxtop.tui.draw.plot import LETTERS, DrawnPlot, PlotLine, plot, style_of, summary
from jaxtop.tui.draw.plot_contents import PlotComparison, is_of_device, ways
from jaxtop.tui.draw.sparkline import area
from jaxtop.tui.draw.switches import Switch, switches
from jaxtop.tui.draw.table import fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import Figure
    from jaxtop.tui.draw.ink import Ink
    from jaxtop.tui.draw.marks import Mark

# The widths of an entry of the table: a name, then the last value, the minimum, the mean and the maximum.
# Names are cut where the screen is narrower than an entry.
_NAME, _FIGURE = 16, 10
_ENTRY = 4 + _NAME + 4 * (_FIGURE + 1)
# The plot keeps this many rows; the table below it gets what is left.
MIN_ROWS = 8
# With fewer columns or rows than these, only the chosen line is drawn, without the table; with fewer rows,
# the switches are left out, too.
MIN_TABLE_SIZE = (56, 10)


@dataclass(frozen=True)
class PlotPage:
    """The figure and the lines that are plotted."""

    figure: Figure
    place: tuple[int, int]
    beside: PlotComparison
    lines: Sequence[PlotLine]
    # The number of lines available; not all of them may be drawn.
    available: int
    limit: float | None
    pointed: float | None = None
    marks: Sequence[Mark] = ()


def page(shown: PlotPage, ink: Ink, width: int, height: int) -> DrawnPlot:
    if width < MIN_TABLE_SIZE[0] or height < MIN_TABLE_SIZE[1]:
        return _small(shown, ink, width, height)
    write = writer(shown.figure)
    above = [switches(_groups(shown), ink, width), _heading(shown, ink)]
    columns = max(1, min(2, width // (_ENTRY + 2)))
    name = min(_NAME, max(1, _NAME + width - _ENTRY))
    entries = _entries(shown, ink, name)
    rows = -(-len(entries) // columns)
    below = min(rows, max(1, height - len(above) - MIN_ROWS - 3))
    drawn, frame = plot(
        shown.lines,
        ink,
        width - 1,
        height - len(above) - below - 1,
        unit=shown.figure.unit,
        write=write,
        limit=shown.limit,
        pointed=shown.pointed,
        marks=shown.marks,
    )
    if frame is None:
        return DrawnPlot(_joined([*above, Text(), _unknown(shown, ink)], width, height))
    legend = [_heads(shown, ink, columns, name)]
    for row in range(below):
        line = Text(" ", no_wrap=True, end="")
        for column in range(columns):
            at = column * rows + row
            if at < len(entries):
                line.append_text(entries[at])
                line.append("  ")
        line.rstrip()
        legend.append(line)
    return DrawnPlot(_joined([*above, *drawn, *legend], width, height), len(above), frame)


def _unknown(shown: PlotPage, ink: Ink) -> Text:
    return Text(f" {units.NA}: {shown.figure.title} has not been reported yet", ink.note, end="")


def _small(shown: PlotPage, ink: Ink, width: int, height: int) -> DrawnPlot:
    """Return the chosen line alone, with its range; in few rows as an area without axes."""
    write = writer(shown.figure)
    line = next((each for each in shown.lines if each.is_chosen), None)
    if line is None or not line.known:
        return DrawnPlot(_joined([_unknown(shown, ink)], width, height))
    above = [switches(_groups(shown), ink, width)] if height >= MIN_TABLE_SIZE[1] else []
    last, low, _, high = summary(line)
    if shown.pointed is not None:
        last = line.value_at(shown.pointed)
    value, reach = f"  {write(last)}", f"  {write(low)} to {write(high)}" if low != high else ""
    name = f" {shown.figure.title} of {line.name}"
    if reach and len(name) + len(value) + len(reach) > width:
        value = ""
    name = shorten(name, max(1, width - len(value) - len(reach)))
    about = (name, ink.label), (value, ink.figure), (reach, ink.label)
    above.append(Text.assemble(*about, no_wrap=True, end=""))
    drawn, frame = plot(
        [line],
        ink,
        width - 1,
        height - len(above),
        unit=shown.figure.unit,
        write=write,
        limit=shown.limit,
        pointed=shown.pointed,
        marks=shown.marks,
        has_letters=False,
    )
    if frame is None:
        rows = max(1, height - len(above))
        room = max(1, width - 2)
        values = [value for _, value in line.points]
        drawn = [Text(f" {each}", ink.trend, end="") for each in area(values, room, rows).lines]
    return DrawnPlot(_joined([*above, *drawn], width, height), len(above), frame)


def _joined(lines: Sequence[Text], width: int, height: int) -> Text:
    return joined(fitted(lines, width, height))


def _groups(shown: PlotPage) -> list[list[Switch]]:
    at, count = shown.place
    figure = f"{shown.figure.title} ({at + 1} of {count})"
    ways_of = ways(shown.figure)
    return [
        [
            Switch("m", (figure, shown.figure.title), "ask('figure', 1)", active=True),
            Switch("/", ("all", ""), "app.find_figure"),
        ],
        [
            Switch("Tab", ("",), "ask('beside', 1)"),
            *(
                Switch("", (each.value, _BRIEF[each]), f"ask('way', '{each.name}')", each is shown.beside)
                for each in ways_of
            ),
        ],
        [Switch("j k", ("choose a line", "line"), "ask('choose', 1)")],
    ]


_BRIEF = {PlotComparison.ALONE: "alone", PlotComparison.DEVICES: "devices", PlotComparison.HOSTS: "processes"}


def _heading(shown: PlotPage, ink: Ink) -> Text:
    line = Text(" ", no_wrap=True, end="")
    chosen = next((each.name for each in shown.lines if each.is_chosen), "")
    line.append(f"{shown.figure.title} of {chosen}", ink.figure)
    known = [value for each in shown.lines for value in each.known]
    if known:
        write = writer(shown.figure)
        line.append(f"  {' to '.join(dict.fromkeys((write(min(known)), write(max(known)))))}", ink.label)
    if shown.beside is PlotComparison.HOSTS and is_of_device(shown.figure):
        line.append(", the mean of its devices", ink.note)
    if shown.limit is not None:
        line.append(f"  ╌ limit {writer(shown.figure)(shown.limit)}", ink.note)
    if shown.available > len(shown.lines):
        line.append(
            f"  {len(shown.lines)} of {shown.available:,}: the chosen one, the highest and the lowest",
            ink.note,
        )
    return printable(line)


def _heads(shown: PlotPage, ink: Ink, columns: int, name: int) -> Text:
    """Return the header of the table. Its first column is the last value, or that under the mouse."""
    when = "last" if shown.pointed is None else text.time_of_day(shown.pointed)
    head = " " * (4 + name) + "".join(f"{each:>{_FIGURE}} " for each in (when, "min", "mean", "max"))
    return Text((" " + (head + "  ") * columns).rstrip(), ink.note, no_wrap=True, end="")


def _entries(shown: PlotPage, ink: Ink, room: int) -> list[Text]:
    write = writer(shown.figure)
    entries = []
    for number, (letter, each) in enumerate(zip(LETTERS, shown.lines, strict=False)):
        last, *others = summary(each)
        if shown.pointed is not None:
            last = each.value_at(shown.pointed)
        press = Style(meta={"press": f"ask('line', {number})"})
        style = style_of(number, ink, chosen=each.is_chosen) + press
        entry = Text(f"{'━' if len(shown.lines) > 1 else '█'} {letter} ", style, no_wrap=True, end="")
        entry.append(fit(each.name, room), (ink.figure if each.is_chosen else ink.blank) + press)
        entry.append(f"{write(last):>{_FIGURE}} ", ink.figure if each.is_chosen else ink.blank)
        entry.append("".join(f"{write(value):>{_FIGURE}} " for value in others), ink.note)
        entries.append(entry)
    return entries
