"""The parts of a step: as a bar with a legend, and over the last hour as columns."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from jaxtop.base import units
from jaxtop.model.naming.sentences import host_names
from jaxtop.model.shares import NAMES, WHOLE, shares_of
from jaxtop.tui.draw.bars import BarPart, bar_line, columns, legend_entry
from jaxtop.tui.draw.overview.panels import OverviewPanel
from jaxtop.tui.draw.overview.steps import SCALE, Timespan, time_axis, with_scale
from jaxtop.tui.draw.panel import Heading, flowed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model.shares import PastSteps, RunParts
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink

# The signs of the parts without colours.
SIGNS = "█▓▒░·"
# The panel mentions the wait for a core from this share of the gap on.
CORE_FROM = 0.1
# A gap is mentioned from this share of the step on.
GAP_FROM = 0.02
# The age of windows, in seconds, from which the panel shows it.
OLD_FROM = 30.0
# From this many times the median step on, the panel says that its time contains pauses between steps.
PAUSES_RATIO = 1.05
# In less than this width the legend has no times.
WITH_TIMES = 60
# Parts below this share are dropped: they would be 0 %.
MIN_PART_SHARE = 0.005
# The fewest lines of the columns, with the line of time below them.
MIN_LINES = 5
# The most lines of the columns, with the line of time below them.
MAX_LINES = 10


class StepPart(NamedTuple):
    """A part of the step: its name in the model, its name on screen, its share, and its sign."""

    name: str
    words: str
    share: float
    sign: str


def step_parts(found: RunParts | None, moment: Moment) -> list[StepPart]:
    """Return the parts of the step; the waiting one names whom the others wait for."""
    parts = []
    for sign, (name, share) in zip(SIGNS, shares_of(found and found.parts), strict=False):
        words = "not measured" if name == "unknown" else name
        if name == "waiting" and found is not None and found.late:
            words = waiting_for(moment, found.late)
        if share >= MIN_PART_SHARE:
            parts.append(StepPart(name, words, share, sign))
    return parts


def waiting_for(moment: Moment, late: Sequence[str]) -> str:
    """Return whom the other processes wait for."""
    return f"waits for {host_names([moment.cluster.hosts[each] for each in late])}"


def anatomy(moment: Moment, span: Timespan, ink: Ink, screens: frozenset[str]) -> OverviewPanel | None:
    """Return the panel; None where no part is measured, neither now nor before."""
    found = moment.checked_step.parts
    parts = step_parts(found, moment)
    has_past = span.past is not None and any(each.parts for each in span.past.samples)
    if not parts and not has_past:
        return None
    return OverviewPanel(
        Heading(
            "Where a step goes",
            f"mean {units.seconds(span.wall_s)}",
            about(moment, found),
            (("6", "Collectives"), *((("O", "Operations"),) if "operations" in screens else ())),
        ),
        "collectives",
        lambda width: 1 + len(legend(parts, span.wall_s, ink, width)) + (MAX_LINES if has_past else 0),
        partial(_lines, parts, span, ink),
        lambda width: [bar(parts, width, ink), *legend(parts, span.wall_s, ink, width)],
        least=2 + MIN_LINES * has_past,
        grows=has_past,
    )


def about(moment: Moment, found: RunParts | None) -> str:
    """Return what the shares are of: pauses too, what waits for a core, and how old the windows are."""
    if found is None:
        return ""
    words, mean = [], found.parts
    wall_s, step = moment.checked_step.wall_s, moment.step
    if wall_s is not None and step is not None and wall_s >= PAUSES_RATIO * step.p50_s:
        words.append("pauses included")
    if mean.host_gap >= GAP_FROM and mean.delayed >= CORE_FROM * mean.host_gap:
        words.append(f"{mean.delayed / mean.host_gap:.0%} of the gap waits for a core")
    if mean.at is not None and moment.now - mean.at >= OLD_FROM:
        words.append(f"windows {units.age(moment.now - mean.at)} old")
    return ", ".join(words)


def bar(parts: Sequence[StepPart], width: int, ink: Ink) -> Text:
    """Return the step as one bar."""
    of = [BarPart(each.share, ink.palette.step_part_colour(each.name), each.sign) for each in parts]
    return bar_line(of, 1.0, width, ink)


def legend(parts: Sequence[StepPart], wall_s: float | None, ink: Ink, width: int) -> list[Text]:
    """Return the parts with their colours, shares and times, in lines of this width; whole entries only."""
    if not parts:
        return [Text("no profiler window yet: press c for one now", ink.note)]
    with_times = wall_s is not None and width >= WITH_TIMES

    def entry(part: StepPart) -> Text:
        colour = ink.palette.step_part_colour(part.name)
        named = legend_entry(part.sign, colour, part.words, units.share(part.share), ink)
        time = f" {units.seconds(part.share * (wall_s or 0.0))}" if with_times else ""
        return named.append(time, ink.note)

    return flowed(map(entry, parts), width, 3)


def _lines(parts: Sequence[StepPart], span: Timespan, ink: Ink, width: int, height: int) -> list[Text]:
    lines = [bar(parts, width, ink), *legend(parts, span.wall_s, ink, width)] if parts else []
    rest = height - len(lines)
    if rest >= MIN_LINES - 1 and span.past is not None:
        lines += over_time(span, ink, width, rest)
    return lines[:height]


def over_time(span: Timespan, ink: Ink, width: int, height: int) -> list[Text]:
    """Return the steps of the last hour as columns: as high as a step was long, made of its parts.

    Where that is unknown, all are equally high.
    """
    room, rows = width - SCALE - 1, height - 1
    if room < 1 or span.past is None:
        return []
    lines = _columns(span.past, (span.since, span.until), ink, room, rows)
    return [*lines, time_axis(span, ink, room)] if lines else []


@lru_cache(maxsize=4)
def _columns(
    past: PastSteps, between: tuple[float, float], ink: Ink, room: int, rows: int
) -> tuple[Text, ...]:
    """Return the columns with their scale; new samples come far less often than paints."""
    found = past.columns(*between, room)
    tallest = max((each.p50_us or 0 for each in found if each is not None), default=0)
    stacks = []
    for each in found:
        height = (
            None if each is None else (each.p50_us or 0) / tallest if tallest else float(bool(each.parts))
        )
        parts = each.parts if each is not None and each.parts else (0, 0, 0, 0, WHOLE)
        stacks.append([part / WHOLE * height * rows for part in parts] if height else None)
    if not any(stacks):
        return ()
    colours = [ink.palette.step_part_colour(name.replace("_", " ")) for name in NAMES]
    lines = []
    for i, line in enumerate(columns(stacks, colours, SIGNS, rows, ink)):
        highest = units.seconds(tallest / 1e6) if tallest else units.share(1.0)
        scale = highest if not i else "0" if i == rows - 1 else ""
        lines.append(with_scale(scale, line, ink))
    return tuple(lines)
