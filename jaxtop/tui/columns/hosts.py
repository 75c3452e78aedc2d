"""The columns of a host: its step, its figures, its resource use, and its last contact."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.model import (
    FIGURES,
    HOST_FIGURES,
    STEP_TIME,
    Figure,
    Scope,
    State,
    Unit,
)
from jaxtop.model.figure_type import DEFAULT_RANK
from jaxtop.model.figures import STEPS_PER_SECOND, figures_of
from jaxtop.model.liveness import BY_SEVERITY
from jaxtop.tui.columns.figures import figures_by_rank, measured, past, with_bar
from jaxtop.tui.core import text
from jaxtop.tui.core.palette import SIGN, Palette
from jaxtop.tui.core.text import width_of, writer
from jaxtop.tui.draw.table import NONE, Column, Row, figure_column, ordinal_column, words_column

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from jaxtop.model import Pulse
    from jaxtop.tui.columns.host_row import HostRow
    from jaxtop.tui.core.moment import Moment


def state_column(state: Callable[[Row], State]) -> Column[Row]:
    """Return the column of states, with sign, name and colour. It sorts the most severe state first."""

    def read(row: Row) -> int:
        return state(row).severity

    def style(row: Row, palette: Palette) -> str:
        return palette.state_colour(state(row))

    return replace(figure_column("state", "state", 13, read, _state, style=style), align="left")


def _state(severity: int) -> str:
    state = BY_SEVERITY[-1 - severity]
    return f"{text.STATE_SIGNS[state]} {state}"


def _compiling(width: int) -> Column[HostRow]:
    def read(row: HostRow) -> tuple[float, str] | None:
        return row.compiling

    def write(running: tuple[float, str] | None) -> str:
        return NONE if running is None else f"{units.age(running[0])} {running[1]}"

    def style(row: HostRow, palette: Palette) -> str | None:
        return palette.warning if row.compiling else None

    column = figure_column("compiling", "compiling", width, read, write, style=style)
    return replace(column, align="left", flexible=True)


def _percent(value: float | None) -> str:
    return units.NA if value is None else f"{value:.2f}%"


def _is_restarted(row: HostRow, palette: Palette) -> str:
    return palette.warning if row.view.incarnation > 1 else palette.muted


def _index(place: tuple[str, int] | None) -> str:
    return units.NA if place is None else str(place[1])


def _derived_column(figure: Figure) -> Column[HostRow]:
    """Return a column of a figure of the step or script, with its sign past a threshold, or as a bound."""
    write_value = writer(figure)

    def write(row: HostRow) -> str:
        value = row.derived(figure)
        if value is None or not isfinite(value):
            return write_value(value)  # as words, which need no sign
        words = (SIGN if figure.judged(value) else "") + write_value(value)
        if figure.is_operation_bound and row.rhythm is not None and row.rhythm.flops_at_least:
            return units.bound(words, at_least=True)
        return f"~{words}" if figure.is_estimate else words

    def style(row: HostRow, palette: Palette) -> str | None:
        if figure in _TIMES:  # where no steps complete, their times are not current
            return None if row.still is None else palette.muted
        reached = figure.judged(row.derived(figure))
        return None if reached is None else palette.level_colour(reached.level)

    def read(row: HostRow) -> float | None:
        return row.derived(figure)

    return Column(
        figure.name, figure.short, width_of(figure), "right", read, write, style, largest_first=True
    )


# The columns of the step and the script: times stand before the history, the others behind it.
_DERIVED = figures_by_rank((*figures_of(Scope.STEP), *figures_of(Scope.SCRIPT)))
_TIMES = tuple(each for each in _DERIVED if each.unit is Unit.SECONDS)
# The time of a step, whose bar compares hosts; and the figures of the machine that have a bar.
STEP = _TIMES[0]
_WITH_BAR = frozenset({"process_cpu_cores", "memory_used_bytes"})
# The number of hosts to check for a figure. We assume that all hosts report the same figures.
HOSTS_CHECKED = 16


def reported_steps(rows: Sequence[HostRow]) -> frozenset[str]:
    """Return the names of the figures of the step and the script that have a column."""
    return frozenset(figure.name for figure in _DERIVED if _is_reported(figure, rows))


def _is_reported(figure: Figure, rows: Sequence[HostRow]) -> bool:
    if figure.shown_from is None:
        return any(row.derived(figure) is not None for row in rows[:HOSTS_CHECKED])
    return any((row.derived(figure) or 0.0) >= figure.shown_from for row in rows)


def _current(row: HostRow) -> tuple[Pulse, int]:
    return row.current.pulse, 0


def _machine_columns(figures: Iterable[Figure]) -> tuple[Column[HostRow], ...]:
    return tuple(map(_machine_column, figures))


def _machine_column(figure: Figure) -> Column[HostRow]:
    column = measured(figure, _current)
    return with_bar(column, lambda row: figure.share(*_current(row))) if figure.name in _WITH_BAR else column


def _share_of_slowest(row: HostRow) -> float | None:
    """Return its median step as a share of the longest one."""
    own, longest = row.derived(STEP), row.longest_step
    return None if own is None or not longest else own / longest


# The columns of the machine: these are always shown, the others if some host reports them.
_CPU, *_ALWAYS = (figure for figure in figures_by_rank(HOST_FIGURES) if figure.rank < DEFAULT_RANK)
_LATER = tuple(figure for figure in figures_by_rank(HOST_FIGURES) if figure.rank >= DEFAULT_RANK)
_MEMORY = FIGURES["memory_used_bytes"]
# The figures that the history column can show, by the key of the column that the table is sorted by.
FOLLOWED: dict[str | None, Figure] = {
    **{figure.name: figure for figure in HOST_FIGURES},
    **dict.fromkeys((figure.name for figure in _TIMES), STEP_TIME),
    "steps": STEPS_PER_SECOND,
}


def _cores(cores: float | None) -> str:
    return units.NA if cores is None else f"{cores:g}"


def _owner(row: HostRow) -> str | None:
    if row.cores is None:
        return None
    return "container" if row.current.pulse.host.is_container else "machine"


def _history(figure: Figure) -> Column[HostRow]:
    return past(
        figure,
        lambda row: figure.read(row.current.pulse, 0),
        lambda row: (row.moment.cluster, row.host.agent, 0),
        lambda row: row.state.is_silent,
    )


# State, process and host stay visible while scrolling.
PINNED_COLUMNS = 3


def columns_for(
    moment: Moment,
    reported: Collection[str] = (),
    step_figures: Collection[str] = (),
    followed: str | None = None,
) -> tuple[Column[HostRow], ...]:
    """Return the columns of hosts, with those figures of the step and the machine that are reported.

    If there are several runs, a column shows the run of each host.
    """
    usual = STEP_TIME if STEP_TIME.name in reported else _CPU
    history = _history(FOLLOWED.get(followed, usual))
    times = [
        with_bar(_derived_column(figure), _share_of_slowest) if figure is STEP else _derived_column(figure)
        for figure in _TIMES
        if figure.name in step_figures
    ]
    lasts = [view.host for view in moment.host_views[:HOSTS_CHECKED]]
    return (
        state_column(lambda row: row.state),
        Column("process", "proc", 4, "right", lambda row: row.place, lambda row: _index(row.place)),
        words_column("host", "host", 11, lambda row: row.host.hostname, flexible=True),
        *((words_column("run", "run", 12, lambda row: row.run),) if len(moment.runs) > 1 else ()),
        *((words_column("role", "role", 10, lambda row: row.role),) if moment.roles else ()),
        figure_column("devices", "dev", 3, lambda row: row.device_count, units.number),
        figure_column("memory", "memory", 6, lambda row: row.used_bytes, units.size),
        figure_column("steps", "steps/s", 7, lambda row: row.steps, partial(units.number, digits=2)),
        *((times[0], history) if times else ()),
        *_machine_columns([_CPU]),
        *(() if times else (history,)),
        *_machine_columns([figure for figure in _LATER if figure is _MEMORY and figure.name in reported]),
        *times[1:],
        figure_column("launches", "launch/s", 8, lambda row: row.launches, partial(units.number, digits=1)),
        *(
            _derived_column(figure)
            for figure in _DERIVED
            if figure.name in step_figures and figure not in _TIMES
        ),
        figure_column("heard", "heard", 6, lambda row: row.age, units.age),
        figure_column("index", "at step", 7, lambda row: row.step, units.number),
        _compiling(20),
        *_machine_columns(
            [*_ALWAYS, *(figure for figure in _LATER if figure is not _MEMORY and figure.name in reported)]
        ),
        *(
            (
                figure_column("cores", "cores", 5, lambda row: row.cores, _cores),
                words_column("of", "of a", 9, _owner),
            )
            if any(last.pulse.host.cores_milli is not None for last in lasts)
            else ()
        ),
        figure_column("agent", "agent", 6, lambda row: row.agent_cpu, _percent),
        ordinal_column("pid", "pid", 7, lambda row: row.host.pid),
        figure_column("starts", "starts", 6, lambda row: row.view.incarnation, str, style=_is_restarted),
        words_column("jax", "jax", 8, lambda row: row.jax, flexible=True),
    )
