"""The rows and columns of the table of plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.base import units
from jaxtop.features.planning import pane as draw
from jaxtop.features.planning.model import sentences as in_words
from jaxtop.features.planning.model.plan import Goal
from jaxtop.tui.draw.table import NONE, Column, figure_column, words_column

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from jaxtop.features.planning.model.plan import Candidate, Interval, Plan
    from jaxtop.features.planning.pane import Scales
    from jaxtop.tui.core.palette import Palette


class PlanRow(NamedTuple):
    """A candidate, and what it is compared with."""

    candidate: Candidate
    plan: Plan
    scales: Scales

    @property
    def key(self) -> Hashable:
        return self.candidate.axes, self.candidate.rules

    @property
    def ratio(self) -> float | None:
        """The time of its step as a share of today's, both in the middle of their intervals."""
        step, today = self.candidate.step_ms, self.scales.today_ms
        return None if step is None or not today else step.middle / today

    @property
    def changes(self) -> str:
        first, *rest = self.candidate.changes or (NONE,)
        return f"{first} and {len(rest)} more" if rest else first


def _fit_colour(row: PlanRow, palette: Palette) -> str | None:
    if row.plan.limit_bytes is None:
        return None
    if row.candidate.fits is None:
        return palette.warning
    return None if row.candidate.fits else palette.bad


def _memory(row: PlanRow, width: int, palette: Palette) -> list[tuple[str, str | None, str | None]]:
    colour = _fit_colour(row, palette) or palette.trend
    return draw.memory_bar(row.candidate.memory_bytes, row.scales, width, colour, palette)


def _step(row: PlanRow, width: int, palette: Palette) -> list[tuple[str, str | None, str | None]]:
    return draw.step_bar(row.candidate.step_ms, row.scales, width, palette)


def _interval(
    key: str,
    title: str,
    width: int,
    read: Callable[[PlanRow], Interval | None],
    write: Callable[[Interval | None], str],
    *,
    style: Callable[[PlanRow, Palette], str | None] | None = None,
) -> Column[PlanRow]:
    """Return a column of intervals; it sorts by their middle, the smallest first."""

    def middle(row: PlanRow) -> float | None:
        found = read(row)
        return None if found is None else found.middle

    return Column(key, title, width, "right", middle, lambda row: write(read(row)), style)


def _drawn(key: str, title: str, like: Column[PlanRow], draw_: Any) -> Column[PlanRow]:
    return Column(key, title, 16, "left", like.read, lambda _: "", searched=False, draw=draw_)


_MEMORY = _interval(
    "memory", "memory", 11, lambda row: row.candidate.memory_bytes, draw.size, style=_fit_colour
)
_STEP = _interval("step", "step", 12, lambda row: row.candidate.step_ms, draw.step)
_FIGURES: tuple[Column[PlanRow], ...] = (
    _MEMORY,
    _STEP,
    words_column("fits", "fits", 7, lambda row: in_words.fits(row.candidate, row.plan), _fit_colour),
    figure_column("ratio", "vs today", 8, lambda row: row.ratio, units.share),
)
_LAST: tuple[Column[PlanRow], ...] = (
    figure_column("devices", "dev", 5, lambda row: row.candidate.devices, units.number),
    _interval("state", "state", 9, lambda row: row.candidate.state_bytes, draw.size),
    words_column("changes", "changes", 30, lambda row: row.changes, flexible=True),
)
# The width of the first column.
NAME_WIDTH = 18
# The most width of the column of meshes.
MAX_MESH_WIDTH = 48
# The most width of the column of communication.
MAX_COMMUNICATION_WIDTH = 40


def columns(
    width: int,
    goal: Goal = Goal.THROUGHPUT,
    unit: str = "",
    mesh: int = NAME_WIDTH,
    communication: int = NAME_WIDTH,
    *,
    has_limit: bool = True,
) -> tuple[Column[PlanRow], ...]:
    """Return the columns in this width; `unit` is that of energy.

    `mesh` and `communication` are the lengths of the longest words in these columns. Without a limit, bars of
    memory are drawn against the largest.
    """
    title = f"energy {unit}".strip()
    energy: Column[PlanRow] = figure_column(
        "energy", title, len(title), lambda row: row.candidate.energy, units.plain
    )
    return (
        words_column(
            "mesh",
            "mesh",
            max(NAME_WIDTH, min(mesh, MAX_MESH_WIDTH, width // 4)),
            lambda row: in_words.label(row.candidate),
            flexible=True,
        ),
        *((energy, *_FIGURES) if goal is Goal.ENERGY else _FIGURES),
        _drawn("memory bar", "of the limit" if has_limit else "of the largest", _MEMORY, _memory),
        _drawn("step bar", "step, today │", _STEP, _step),
        words_column(
            "communication",
            "communication",
            max(NAME_WIDTH, min(communication, MAX_COMMUNICATION_WIDTH)),
            lambda row: draw.communication(row.candidate),
        ),
        *_LAST,
        *(() if goal is Goal.ENERGY else (energy,)),
    )
