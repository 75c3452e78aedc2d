"""The candidates of a plan by memory and time of a step, and the frontier that none is better than."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from jaxtop.base import units
from jaxtop.tui.draw.panel import FRAME_HEIGHT, FRAME_WIDTH, Heading, flowed, panel
from jaxtop.tui.draw.plane import SCALE, PlotArea, axis, curve, with_scale
from jaxtop.tui.draw.plot import ticks

if TYPE_CHECKING:
    from collections.abc import Hashable

    from rich.style import Style

    from jaxtop.features.planning.model.plan import Candidate, Plan
    from jaxtop.tui.draw.ink import Ink

MIN_WIDTH, MIN_HEIGHT = 40, 9
# The characters of a label of the scale of memory, and the share that scales go beyond the largest figure.
LABEL, BEYOND = 14, 1.06
TODAY, CHOSEN, LIMIT = "○", "◆", "╎"
# By whether a candidate fits: its sign, and what that means.
SIGNS = {True: ("●", "fits"), None: ("◐", "perhaps"), False: ("×", "does not fit")}


class _PlotPoint(NamedTuple):
    bytes: float
    ms: float
    candidate: Candidate


def frontier(plan: Plan, chosen: Hashable, ink: Ink, width: int, height: int) -> list[Text]:
    """Return the panel; a sentence if no candidate has both figures, and nothing without room."""
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        return []
    points = [
        _PlotPoint(each.memory_bytes.middle, each.step_ms.middle, each)
        for each in plan.candidates
        if each.memory_bytes is not None and each.step_ms is not None
    ]
    if not points:
        why = Text("not drawn: for no candidate both memory and time are known", ink.note)
        return panel("Memory against time", [why], (width, 1 + FRAME_HEIGHT), ink)
    limit = plan.limit_bytes
    most = BEYOND * max(limit or 0, *(each.bytes for each in points))
    low, high = min(each.ms for each in points), max(each.ms for each in points)
    margin = max(high - low, 0.1 * high) * (BEYOND - 1) + 0.01
    plane = PlotArea(
        (0.0, most),
        (max(0.0, low - margin), high + margin),
        width - FRAME_WIDTH - SCALE - 1,
        height - FRAME_HEIGHT - 2,
    )

    def best(held: float) -> float | None:
        """Return the shortest step of those that need no more."""
        return min((each.ms for each in points if each.bytes <= held), default=None)

    cells = curve(plane, best, ink.trend)
    if limit is not None:
        for row in cells:
            row[plane.column(limit)] = LIMIT, ink.style(ink.palette.bad)
    key = [(each.candidate.axes, each.candidate.rules) == chosen for each in points]
    for is_chosen, each in sorted(zip(key, points, strict=True), key=lambda pair: pair[0]):
        cells[plane.row(each.ms)][plane.column(each.bytes)] = _sign(each.candidate, ink, is_chosen=is_chosen)
    ends = {plane.row(ms): units.micros(ms * 1000) for ms in (low, high)}
    marks = {
        plane.column(value): (units.size(value), ink.note)
        for value in ticks(0.0, most, max(1, plane.width // LABEL), binary=True)
    }
    lines = [*with_scale(cells, ends, ink), axis(plane, marks, ink)]
    words = "" if limit is None else f"limit {units.size(limit)}{' (simulated)' * plan.is_limit_simulated}"
    heading = Heading("Memory against time", words, "a step, by what the fullest device holds")
    return panel(heading, [*lines, *_legend(ink, width - FRAME_WIDTH)], (width, height), ink)


def _sign(candidate: Candidate, ink: Ink, *, is_chosen: bool) -> tuple[str, Style]:
    if is_chosen:
        return CHOSEN, ink.accent
    if candidate.is_today:
        return TODAY, ink.figure
    return SIGNS[candidate.fits][0], ink.style(_colours(ink)[candidate.fits])


def _colours(ink: Ink) -> dict[bool | None, str]:
    return {True: ink.palette.good, None: ink.palette.warning, False: ink.palette.bad}


def _legend(ink: Ink, width: int) -> list[Text]:
    signs = [(CHOSEN, ink.accent, "under the cursor"), (TODAY, ink.figure, "today")]
    signs += [(sign, ink.style(_colours(ink)[fits]), words) for fits, (sign, words) in SIGNS.items()]
    signs.append(("⣀", ink.trend, "the best for its memory"))
    return flowed(
        (Text.assemble((sign, style), (f" {words}", ink.label)) for sign, style, words in signs), width, 3
    )[:1]
