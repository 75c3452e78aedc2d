"""The last hour: what goes on and what happened, and what was compiled and why."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from jaxtop.base import units
from jaxtop.base.names import shorten
from jaxtop.model import RULES_BY_NAME, Severity
from jaxtop.model.programs.compiles import latest_compiles
from jaxtop.tui.core import text
from jaxtop.tui.core.ongoing import COMPILE, ongoing_events
from jaxtop.tui.draw.bars import pair
from jaxtop.tui.draw.overview.panels import NAME, OverviewPanel, fixed, row_name
from jaxtop.tui.draw.panel import Heading, cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model.programs.compiles import CompileView
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink

HOUR = 3600.0
# The most events and functions that the panels list.
MOST_LISTED = 20


class Happened(NamedTuple):
    """An event of the last hour: when, how bad, and what; `is_ongoing` if it lasts."""

    at: float
    severity: Severity
    words: str
    is_ongoing: bool = False


class CompiledFunction(NamedTuple):
    """The compilations of a function in the last hour: how often and how long on one process, and why."""

    function: str
    at: float
    times: int
    seconds: float
    why: str
    source: str


def happened(moment: Moment) -> list[Happened]:
    """Return what goes on, then the other events of the last hour, the newest first; no compilations."""
    ongoing = ongoing_events(moment)
    titles = tuple(f"{each.title}: " for each in RULES_BY_NAME.values())
    found: list[Happened] = []
    for event in reversed(moment.cluster.events):
        if moment.now - event.at > HOUR or len(found) >= 2 * MOST_LISTED:
            break
        if event.kind == COMPILE:
            continue
        words = event.text
        if event in ongoing and words.startswith(titles):
            words = words.partition(": ")[0]  # its sentence is above
        host = moment.cluster.hosts.get(event.agent)
        if host is not None and (name := moment.group_labels.get(moment.run_of(host))):
            words = f"{name}: {words}"
        found.append(Happened(event.at, Severity.of(event.severity), text.printable(words), event in ongoing))
    if not found and moment.cluster.hosts:
        found.append(Happened(_began(moment), Severity.INFO, "the view began; nothing has happened since"))
    return sorted(found, key=lambda each: not each.is_ongoing)[:MOST_LISTED]


def _began(moment: Moment) -> float:
    past = moment.cluster.past_steps.values()
    return moment.since or min((each.since for each in past), default=moment.now)


def compiled(moment: Moment) -> list[CompiledFunction]:
    """Return what was compiled in the last hour, the functions that took longest first; JAX's own as one."""
    by_process: dict[str, dict[str, list[CompileView]]] = defaultdict(lambda: defaultdict(list))
    for view in latest_compiles(moment.cluster, moment.now):
        each, host = view.compilation, view.host
        if moment.ago(host, each.at_ms) > HOUR:
            continue
        is_own = f"jit_{each.function}" in host.programs.of_jax
        name = "JAX's own functions" if is_own else each.function
        by_process[name][host.agent].append(view)
    found = []
    for name, of in by_process.items():
        agent, most = max(of.items(), key=lambda each: sum(one.compilation.duration_ms for one in each[1]))
        made = [each.compilation for each in most]
        last = made[-1]
        again = next((each for each in reversed(made) if each.is_again), None)
        why = "operations outside of jit" if name != last.function else (again or last).why
        host = moment.cluster.hosts[agent]
        found.append(
            CompiledFunction(
                text.printable(name),
                moment.now - moment.ago(host, last.at_ms),
                len(made),
                sum(each.duration_ms for each in made) / 1000,
                text.printable("first call" if why == "not compiled before" else why),
                "" if name != last.function else text.printable((again or last).source),
            )
        )
    return sorted(found, key=lambda each: -each.seconds)[:MOST_LISTED]


def events(found: Sequence[Happened], more: Sequence[CompiledFunction], ink: Ink) -> OverviewPanel | None:
    """Return the panel of events; `more` are compilations that have no panel of their own.

    Compilations from before this view began are on Programs, and not on Events.
    """
    if not found and not more:
        return None

    def lines(width: int, height: int) -> list[Text]:
        drawn = [(each.is_ongoing, each.at, _event(each, ink, width)) for each in found]
        drawn += [(False, each.at, _in_line(each, ink, width)) for each in more]
        ordered = sorted(drawn, key=lambda each: (not each[0], -each[1]))
        return [line for _, _, line in ordered[:height]]

    return OverviewPanel(
        Heading("Last hour", keys=(("8", "Events"), *((("7", "Programs"),) if more else ()))),
        "events",
        lambda _: len(found) + len(more),
        lines,
        lambda width: [Text.assemble(row_name("events", ink), each) for each in lines(width - NAME, 2)],
        least=2,
    )


def _event(each: Happened, ink: Ink, width: int) -> Text:
    colour = ink.palette.severity_colour(each.severity.rank) if each.severity.rank else ink.palette.label
    line = Text.assemble(
        (f"{text.time_of_day(each.at)} ", ink.note),
        (f"{each.severity.sign} ", pair(ink, colour)),
        (each.words, pair(ink, colour)),
        no_wrap=True,
    )
    if each.is_ongoing:
        cut(line, width - 10)
        line.append(" (ongoing)", ink.note)
    cut(line, width)
    return line


def _in_line(each: CompiledFunction, ink: Ink, width: int) -> Text:
    often = "" if each.times == 1 else f" {each.times}×"
    why = f": {each.why}" + (f" at {each.source}" if each.source else "")
    line = Text.assemble(
        (f"{text.time_of_day(each.at)} ", ink.note),
        (f"· compiled {each.function}{often} in {units.seconds(each.seconds)}", ink.label),
        (why, ink.note),
        no_wrap=True,
    )
    cut(line, width)
    return line


def compilations(found: Sequence[CompiledFunction], ink: Ink) -> OverviewPanel | None:
    """Return the panel of compilations; None where nothing was compiled."""
    if not found:
        return None

    def line(each: CompiledFunction, width: int) -> Text:
        name = min(max(len(one.function) for one in found), max(10, width // 4))
        drawn = Text.assemble(
            (f"{shorten(each.function, name):<{name}}", ink.label),
            (f"  {each.times:>3}×", ink.figure),
            (f"  {units.seconds(each.seconds):>6}", ink.figure),
            (f"  {each.why}", ink.note),
            (f" at {each.source}" if each.source else "", ink.note),
            no_wrap=True,
        )
        cut(drawn, width)
        return drawn

    times, seconds = sum(each.times for each in found), sum(each.seconds for each in found)
    wants, _ = fixed([Text()] * len(found))
    return OverviewPanel(
        Heading(
            "Compiled in the last hour",
            f"{times}×  {units.seconds(seconds)}",
            keys=(("7", "Programs"),),
        ),
        "programs",
        wants,
        lambda width, height: [line(each, width) for each in found[:height]],
        lambda width: [
            Text.assemble(row_name("compiled", ink), line(each, width - NAME)) for each in found[:1]
        ],
    )
