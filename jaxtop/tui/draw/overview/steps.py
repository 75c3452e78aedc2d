"""How long a step takes over time: the median as an area on its own range, p99 as dots."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.model import pace_of
from jaxtop.model.steps.views import past_of
from jaxtop.tui.core import text
from jaxtop.tui.draw.bars import spelled
from jaxtop.tui.draw.marks import Mark, compile_marks, ongoing_marks, put, put_marks
from jaxtop.tui.draw.overview.panels import OverviewPanel, row_name
from jaxtop.tui.draw.panel import Heading
from jaxtop.tui.draw.sparkline import NO_DOTS, area, braille

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model.shares import PastSteps, StepSample
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink

# The width of the scale at the left of plots.
SCALE = 6
# The least time that a plot covers, in seconds, and the lines that it can use.
SHORTEST, MOST_LINES = 20.0, 12
LEAST_LINES = 5


@dataclass(frozen=True)
class Timespan:
    """The time that the plots of the overview cover, what was sampled in it, and what happened.

    `wall_s` is the time from step to step, of which parts of a step and costs of findings are shares.
    `stopped_s` is for how long no process has ended a step; None unless that is very long.
    """

    now: float
    past: PastSteps | None
    step_s: float | None
    wall_s: float | None
    p99_s: float | None
    per_second: float | None
    marks: tuple[Mark, ...]
    stopped_s: float | None = None

    @property
    def since(self) -> float:
        """The start of the plots: the oldest sample."""
        return min(self.now - SHORTEST, self.past.since) if self.past else self.now - SHORTEST

    @property
    def until(self) -> float:
        """The end of the plots: the newest sample, so that a view that is ahead of it leaves no gap.

        Once steps have stopped, no samples come, and the plots end now.
        """
        return self.now if self.past is None or self.stopped_s is not None else self.past.at

    def columns(self, count: int) -> list[StepSample | None]:
        """Return `count` samples, evenly spaced over the span."""
        return [] if self.past is None else self.past.columns(self.since, self.until, count)


def timespan(moment: Moment) -> Timespan:
    """Return the time that the plots cover, of the run whose steps stand for all."""
    run = moment.run_of(moment.stepping[0].host) if moment.stepping else ""
    past = moment.cluster.past_steps.get(run)
    hosts = [view.current for view in moment.stepping]
    late = [host.pulse.rhythm.p99_us for host in hosts if host.pulse.rhythm and host.pulse.rhythm.p99_us]
    paces = [pace for host in hosts if (pace := pace_of(host)) is not None]
    median = moment.step.p50_s if moment.step else None
    stopped = [past_of(host) for host in hosts]
    return Timespan(
        moment.now,
        past,
        median,
        moment.checked_step.wall_s or median,
        max(late) / 1e6 if late else None,
        min(paces, default=None),
        tuple(sorted([*ongoing_marks(moment), *compile_marks(moment)])),
        min((each for each in stopped if each is not None), default=None) if None not in stopped else None,
    )


def steps(span: Timespan, ink: Ink) -> OverviewPanel | None:
    """Return the panel; None while no step is known."""
    if span.step_s is None:
        return None
    # Without a sample since the viewer came there is no plot that a time could be said of.
    note = (
        ""
        if span.past is None and span.stopped_s is not None
        else f"last {units.age(span.until - span.since)}"
    )
    return OverviewPanel(
        Heading("Step", in_short(span), note, (("0", "Plot"),)),
        "plot",
        lambda _: MOST_LINES,
        partial(_lines, span, ink),
        lambda width: [_brief(span, ink, width)],
        least=LEAST_LINES,
        grows=True,
    )


def in_short(span: Timespan) -> str:
    """Return the step in figures."""
    rate = [] if span.per_second is None else [units.rate(span.per_second)]
    return "  ".join([percentiles(span), *rate])


def percentiles(span: Timespan) -> str:
    """Return the median step, the time that one of a hundred exceeds, and their age if steps stopped."""
    late = [] if span.p99_s is None else [f"p99 {units.seconds(span.p99_s)}"]
    old = [] if span.stopped_s is None else [f"({units.age(span.stopped_s)} ago)"]
    return "  ".join([f"p50 {units.seconds(span.step_s)}", *late, *old])


def _values(found: Sequence[StepSample | None], field: str) -> list[float | None]:
    return [None if each is None or (us := getattr(each, field)) is None else us / 1e6 for each in found]


def _brief(span: Timespan, ink: Ink, width: int) -> Text:
    style = ink.figure if span.stopped_s is None else ink.note
    line = Text.assemble(row_name("step", ink), (in_short(span), style))
    room = min(24, width - line.cell_len - 2)
    if room >= 6:
        drawn = area(_values(span.columns(2 * room), "p50_us"), room, 1)
        line.append("  ").append(drawn.lines[0], ink.trend)
    return line


def _lines(span: Timespan, ink: Ink, width: int, height: int) -> list[Text]:
    if span.past is None and span.stopped_s is not None:
        return [Text("no step has ended since this view began", ink.note)][:height]
    room, rows = width - SCALE - 1, height - 1
    if room < 2 or rows < 1 or span.past is None:
        return [_brief(span, ink, width)][:height]
    lines = _curve(span.past, (span.since, span.until), ink, room, rows)
    return [*lines, time_axis(span, ink, room)]


@lru_cache(maxsize=4)
def _curve(past: PastSteps, between: tuple[float, float], ink: Ink, room: int, rows: int) -> tuple[Text, ...]:
    """Return the area with its scale; new samples come far less often than paints."""
    found = past.columns(*between, 2 * room)
    drawn = area(_values(found, "p50_us"), room, rows)
    dots = braille(_values(found, "p99_us"), drawn, rows)
    lines = []
    for i, (line, above) in enumerate(zip(drawn.lines, dots, strict=True)):
        scale = units.seconds(drawn.high) if not i else units.seconds(drawn.low) if i == rows - 1 else ""
        filled = ink.by_height((rows - i) / rows)
        cells = (
            (dot, ink.note)
            if cell == NO_DOTS and dot != NO_DOTS
            else (" " if cell == NO_DOTS else cell, filled)
            for dot, cell in zip(above, line, strict=True)
        )
        lines.append(with_scale(scale, spelled(cells), ink))
    return tuple(lines)


def with_scale(value: str, line: Text, ink: Ink) -> Text:
    """Return a line of a plot behind its scale, which has a value or none there."""
    edge = "┤" if value else "│"
    return Text.assemble((f"{value:>{SCALE}}", ink.note), (edge, ink.divider), line, no_wrap=True)


def time_axis(span: Timespan, ink: Ink, room: int) -> Text:
    """Return the line below a plot: when it begins and ends, and what happened between."""
    line = Text(" " * SCALE + "└", ink.divider, no_wrap=True)
    start, end = text.time_of_day(span.since), "now"
    if room < len(start) + len(end) + 8:
        return line.append("─" * room, ink.divider)
    cells = [("─", ink.divider)] * room
    width = (span.until - span.since) / room
    put(cells, 0, f"{start} ", ink.note)
    put(cells, room - len(end) - 1, f" {end}", ink.note)
    ends = len(start) + 1, room - len(end) - 2  # words do not cover those before them
    put_marks(cells, span.marks, lambda at: int((at - span.since) / width), ends, ink)
    return line.append_text(spelled(cells))
