"""The known hardware figures of a device and of a host; a word marks those that reached a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.base.units import joules, operations
from jaxtop.model import DEVICE_FIGURES, FIGURES, HOST_FIGURES, MEMORY, BusyThread, Figure, Pulse, Unit
from jaxtop.model.devices import errors, slowed
from jaxtop.model.figure_type import Level
from jaxtop.tui.core.palette import SIGN
from jaxtop.tui.core.text import writer
from jaxtop.tui.draw.panel import flowed
from jaxtop.tui.draw.panes.facts import pairs
from jaxtop.tui.draw.sparkline import area

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.style import Style

    from jaxtop.model.steps.views import StepView
    from jaxtop.tui.draw.ink import Ink

    Trend = Callable[[Figure], Sequence[float | None]]

# A shorter sparkline is not readable.
SHORTEST_TREND, LONGEST_TREND = 6, 40
# Figures of these units are shown without their limit: a share implies it.
_LIMITLESS = frozenset({Unit.SHARE})
_SHOWN = [each for each in DEVICE_FIGURES if each is not MEMORY]  # that has a section of its own
# The lines of the figures of a host, with labels.
_IN_PANE = [(*each.pane, each) for each in HOST_FIGURES if each.pane]
_OF_HOST = [
    [(label, each) for at, label, each in _IN_PANE if at == line]
    for line in sorted({at for at, _, _ in _IN_PANE})
]


def of_level(level: Level, ink: Ink) -> Style:
    colour = ink.palette.level_colour(level)
    return ink.style(colour, bold=level is Level.BAD or None)


def measured(
    figure: Figure, pulse: Pulse, position: int, ink: Ink, *, with_limit: bool = True
) -> Text | None:
    """Return a figure, its limit, and a word if it reached a threshold; None if the figure is unknown."""
    value, full = figure.read(pulse, position), figure.full(pulse, position)
    if value is None:
        return None
    write = writer(figure)
    words = write(value)
    if with_limit and full is not None and figure.unit not in _LIMITLESS:
        words += f" of {write(full)}"
    reached = figure.reached(pulse, position)
    if reached is None:
        return Text(words)
    return Text(f"{words} {SIGN} {reached.word}", of_level(reached.level, ink))


def device_lines(pulse: Pulse, position: int, ink: Ink, width: int, trend: Trend) -> list[Text]:
    """Return the faults, and a line for each known figure, with its recent values if they fit."""
    readings = [
        (each, words) for each in _SHOWN if (words := measured(each, pulse, position, ink)) is not None
    ]
    room = max((len(each.title) for each, _ in readings), default=0)
    lines = _faults(pulse, position, ink)
    drawn = min(LONGEST_TREND, max(SHORTEST_TREND, width // 5))
    for figure, words in readings:
        line = Text(f"{figure.title:<{room}} ", ink.note, no_wrap=True, end="")
        is_long = line.cell_len + words.cell_len > width  # the word is more useful than the limit
        brief = measured(figure, pulse, position, ink, with_limit=False) if is_long else None
        line.append_text(brief or words)
        if line.cell_len + 1 + drawn <= width:
            line.append(" " * (width - drawn - line.cell_len))
            line.append(area(trend(figure), drawn, 1).lines[0], ink.trend)
        lines.append(line)
    return lines


def device_words(pulse: Pulse, position: int, ink: Ink, width: int) -> list[Text]:
    """Return the same in as few lines as possible: the faults in words, then the figures side by side."""
    known = (
        (each, words)
        for each in sorted(_SHOWN, key=lambda each: each.rank > 1)
        if (words := _marked(each, pulse, position, ink)) is not None
    )
    facts = (pairs([(each.short, "")], ink).append_text(words) for each, words in known)
    return [*_faults(pulse, position, ink), *flowed(facts, width)]


def _faults(pulse: Pulse, position: int, ink: Ink) -> list[Text]:
    lines = []
    found = slowed(pulse, position)
    if found is not None and found[0]:
        lines.append(Text(f"{SIGN} slowed by {', '.join(found[0])}", of_level(found[1], ink)))
    corrected, uncorrected, level = errors(pulse, position)
    if uncorrected:
        lines.append(Text(f"{SIGN} ECC: {uncorrected:,} not corrected", of_level(level, ink)))
    if corrected:
        lines.append(Text(f"ECC: {corrected:,} corrected", ink.note))
    return lines


def host_lines(pulse: Pulse, ink: Ink, width: int) -> list[Text]:
    """Return the figures of the machine or the container, and the share that the process uses."""
    sample = pulse.host
    lines = [_facts(pulse, ink, width, facts) for facts in _OF_HOST]
    if (cores := FIGURES["cores"].read(pulse, 0)) is not None:
        whose = "container" if sample.is_container else "machine"
        lines.insert(0, Text(f"{whose} with {cores:g} cores", ink.note))
    return [line for line in lines if line.cell_len]


def _facts(pulse: Pulse, ink: Ink, width: int, facts: Sequence[tuple[str, Figure]]) -> Text:
    """Return the known facts in one line; if they do not fit, without limits, then with signs for words."""
    ways: tuple[Callable[[Figure], Text | None], ...] = (
        lambda figure: measured(figure, pulse, 0, ink),
        lambda figure: measured(figure, pulse, 0, ink, with_limit=False),
        lambda figure: _marked(figure, pulse, 0, ink),
    )
    line = Text()
    for write in ways:
        line = Text(no_wrap=True, end="")
        for name, figure in facts:
            words = write(figure)
            if words is not None:
                line.append(f"{'  ' if line.cell_len else ''}{name} ", ink.note)
                line.append_text(words)
        if line.cell_len <= width:
            break
    return line


def _marked(figure: Figure, pulse: Pulse, position: int, ink: Ink) -> Text | None:
    """Return a figure, with a sign before it if it reached a threshold; None if the figure is unknown."""
    value, reached = figure.read(pulse, position), figure.reached(pulse, position)
    if value is None:
        return None
    words = f"{SIGN if reached else ''}{writer(figure)(value)}"
    return Text(words, "" if reached is None else of_level(reached.level, ink))


def thread_lines(threads: Sequence[BusyThread], ink: Ink) -> list[Text]:
    """Return the threads that use most CPU. Python threads block each other, native ones do not."""
    kinds = {True: "Python", False: "native"}
    uses = [(each, units.share(each.cpu_permille / 1000)) for each in threads]
    return [pairs([(each.name, share), ("", kinds[each.is_python])], ink) for each, share in uses]


def step_lines(step: StepView, ink: Ink, width: int, trend: Sequence[float | None]) -> list[Text]:
    times = [("p50", step.p50_s), ("p90", step.p90_s), ("p99", step.p99_s)]
    rate = ("" if step.per_second else "rate", units.rate(step.per_second))
    lines = [
        pairs([(name, units.seconds(seconds)) for name, seconds in times], ink),
        pairs([("mean", units.seconds(step.mean_s)), rate], ink),
    ]
    if step.jitter is not None:
        lines[-1].append_text(pairs([("  jitter", units.share(step.jitter))], ink))
    if step.idle is not None:
        reached = FIGURES["idle"].judged(step.idle)
        line = pairs([("devices idle", "")], ink)
        line.append(
            units.share(step.idle) + (f" {SIGN} {reached.word}" if reached else ""),
            of_level(reached.level if reached else Level.FINE, ink),
        )
        lines.append(line)
    if step.flops_per_second is not None:
        sign = "≥" if step.flops_at_least else ""
        line = pairs([("computes", f"{sign}{operations(step.flops_per_second)}")], ink)
        if step.utilization is not None:
            line.append_text(pairs([("  of peak", f"{sign or '~'}{units.share(step.utilization)}")], ink))
        lines.append(line)
    source = f"its peak: {step.peak_source}"
    if step.utilization is not None and len(source) <= width:
        lines.append(Text(source, ink.note))
    tokens = step.tokens_per_second
    pace = [] if tokens is None else [("tokens", f"{units.amount(tokens)}/s")]
    energy = [("a step", step.joules_per_step), ("a token", step.joules_per_token)]
    costs = [(name, joules(cost)) for name, cost in energy if cost is not None]
    together = pairs([*pace, *costs], ink)
    fits = together.cell_len <= width
    lines += [
        each for each in ([together] if fits else [pairs(pace, ink), pairs(costs, ink)]) if each.cell_len
    ]
    if any(value is not None for value in trend):
        lines.append(Text(area(trend, min(width, LONGEST_TREND), 1).lines[0], ink.trend))
    return lines
