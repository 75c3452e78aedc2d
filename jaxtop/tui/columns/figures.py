"""Columns of figures, with a sign and a colour past a threshold, with bars, and of their history."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from jaxtop.base import units
from jaxtop.model import EMPTY_HOST, Cluster, Figure, Host, Pulse, recent, reported_figures
from jaxtop.tui.core.palette import SIGN, STEPS, Palette
from jaxtop.tui.core.text import width_of, writer
from jaxtop.tui.draw.sparkline import area, bar
from jaxtop.tui.draw.table import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtop.tui.core.moment import Moment

AnyRow = TypeVar("AnyRow")

# The width of a history, and of a bar.
HISTORY, BAR = 14, 6
HISTORY_KEY = "history"


def measured(figure: Figure, where: Callable[[AnyRow], tuple[Pulse, int]]) -> Column[AnyRow]:
    """Return a column of a figure. `where` returns the pulse of a row and the position of its device."""
    write_value = writer(figure)

    def value(row: AnyRow) -> float | None:
        return figure.read(*where(row))

    def write(row: AnyRow) -> str:
        return (SIGN if figure.reached(*where(row)) else "") + write_value(value(row))

    def style(row: AnyRow, palette: Palette) -> str | None:
        reached = figure.reached(*where(row))
        return None if reached is None else palette.level_colour(reached.level)

    return Column(
        figure.name, figure.short, width_of(figure), "right", value, write, style, largest_first=True
    )


def with_bar(column: Column[AnyRow], share: Callable[[AnyRow], float | None]) -> Column[AnyRow]:
    """Return the column with a bar before its text, as long as this share; in the colour of the share."""

    def draw(row: AnyRow, width: int, palette: Palette) -> list[tuple[str, str | None, str | None]]:
        words, length = column.write(row), share(row)
        colour = None if column.style is None else column.style(row, palette)
        if colour is None and words.strip() == units.NA:
            colour = palette.muted
        text = f" {words:>{width - BAR - 1}}"
        if length is None:
            return [(" " * BAR + text, colour, None)]
        filled = colour or palette.ramp[min(STEPS - 1, max(0, int(length * STEPS)))]
        return [(bar(length, BAR), filled, palette.track), (text, colour, None)]

    return replace(column, width=column.width + 1 + BAR, draw=draw)


def figures_by_rank(figures: Iterable[Figure]) -> tuple[Figure, ...]:
    return tuple(sorted((each for each in figures if each.has_column), key=lambda each: each.rank))


def past(
    figure: Figure,
    value: Callable[[AnyRow], float | None],
    where: Callable[[AnyRow], tuple[Cluster, str, int]],
    is_past: Callable[[AnyRow], bool],
) -> Column[AnyRow]:
    """Return a column of the last samples of a figure.

    It sorts by the current value, and keeps its place whichever figure it shows.
    """

    def write(row: AnyRow) -> str:
        cluster, agent, position = where(row)
        return curve(recent(cluster, agent, figure, position, 2 * HISTORY))

    def style(row: AnyRow, palette: Palette) -> str | None:
        return None if is_past(row) else palette.trend

    drawn = Column(HISTORY_KEY, f"{figure.short}, recent", HISTORY, "left", value, write)
    return replace(drawn, style=style, largest_first=True, searched=False)


def curve(values: Sequence[float | None], width: int = HISTORY) -> str:
    """Return values over time as a line of dots on the scale of their own range, two values a character."""
    if all(value is None for value in values):
        return units.NA
    return area(values, width, 1).lines[0]


class ReportedNames:
    """The names of the figures, and of the scalars of scripts, reported since the current runs are shown.

    Names are only added, so that columns do not move when a host is late or gone.
    """

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        self.scalars: frozenset[str] = frozenset()
        self._runs: list[str] = []
        self._seen: dict[str, Host] = {}

    def see(self, moment: Moment) -> frozenset[str]:
        runs = [run.id for run in moment.runs]
        if runs != self._runs:
            self._runs, self._seen, self.names, self.scalars = runs, {}, frozenset(), frozenset()
        last = [view.host for view in moment.host_views]
        pairs = [(self._seen.get(host.agent, EMPTY_HOST), host) for host in last]
        self._seen = {host.agent: host for host in last}
        self.names |= reported_figures(host.pulse for before, host in pairs if before.pulse is not host.pulse)
        curves = [host.curves for before, host in pairs if before.curves is not host.curves]
        self.scalars |= {each.name for of_host in curves for each in of_host.curves}
        return self.names
