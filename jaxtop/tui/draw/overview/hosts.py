"""The processes: their own time in the step, its trend, CPU, memory, and what is said about each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.base.names import shorten
from jaxtop.model import FIGURES, RULES_BY_NAME, STEP_TIME, Severity, State, pace_of, recent
from jaxtop.model.wall_time.step_parts import parts_of_hosts
from jaxtop.tui.core import text
from jaxtop.tui.core.moment import name_of
from jaxtop.tui.draw.bars import pair
from jaxtop.tui.draw.overview.anatomy import waiting_for
from jaxtop.tui.draw.overview.panels import OverviewPanel, row_name
from jaxtop.tui.draw.panel import Heading, wrapped
from jaxtop.tui.draw.sparkline import area

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.style import Style

    from jaxtop.model import Finding, HostView
    from jaxtop.model.shares import Parts
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink

# The most processes that the panel lists.
MAX_HOSTS = 40
# The values of the trend of a process.
PAST = 24
# From this share of a step on, the panel says that a process waits.
WAITS_FROM = 0.05
# The width of a trend.
TREND = 12
_CPU, _MEMORY = FIGURES["process_cpu_cores"], FIGURES["memory_used_bytes"]


@dataclass(frozen=True)
class HostLine:
    """A process of the overview: its step with pauses, and `own_s`, its part of that without its waits."""

    state: State
    label: str
    step_s: float | None
    own_s: float | None
    past: Sequence[float | None]
    cpu: float | None
    memory: float | None
    note: str = ""
    # What the note is where there is no room for it; empty: as many of its words as there is room for.
    brief: str = ""
    severity: Severity = Severity.INFO


@dataclass(frozen=True)
class HostLines:
    """The processes that are listed, those with findings and in the worst states first."""

    listed: Sequence[HostLine]
    count: int
    live: int
    nouns: str
    # The groups, where there are several.
    groups: str = ""


def host_lines(moment: Moment) -> HostLines:
    """Return the processes of a moment."""
    about = {each.subject.agent: each for each in reversed(moment.findings) if each.subject.agent}
    ranks = {agent: each.severity.rank for agent, each in about.items()}
    order = sorted(
        moment.host_views, key=lambda view: (-view.state.severity, -ranks.get(view.host.agent, -1))
    )
    parts = parts_of_hosts(moment.cluster, moment.now)
    return HostLines(
        [_host(view, about.get(view.host.agent), parts, moment) for view in order[:MAX_HOSTS]],
        len(moment.host_views),
        sum(view.state is State.LIVE for view in moment.host_views),
        moment.nouns(),
        ", ".join(map(str, moment.groups)) if len(moment.groups) > 1 else "",
    )


def _host(view: HostView, finding: Finding | None, parts: Mapping[str, Parts], moment: Moment) -> HostLine:
    pulse, pace = view.current.pulse, pace_of(view.current)
    step = 1 / pace if pace else None
    its = parts.get(view.host.agent)
    note = brief = ""
    if finding is not None:
        note = RULES_BY_NAME[finding.rule].title.lower()
    elif view.state is not State.LIVE:
        note = view.state.value
    elif its is not None and its.waiting >= WAITS_FROM:
        found = moment.checked_step.parts
        if found is not None and found.late:  # the finding says for how long
            note, brief = waiting_for(moment, found.late), "waits"
        else:
            note = f"waits {units.share(its.waiting)}"
    return HostLine(
        view.state,
        _label(view, moment),
        step,
        None if step is None or its is None else step * (1 - its.waiting),
        recent(moment.cluster, view.host.agent, STEP_TIME, 0, PAST),
        _CPU.read(pulse, 0),
        _MEMORY.share(pulse),
        note,
        brief,
        Severity.INFO if finding is None else finding.severity,
    )


def _label(view: HostView, moment: Moment) -> str:
    """Return the name of a process: what its run is for, and in a run of several its own name."""
    run = moment.run_of(view.host)
    label = moment.group_labels.get(run, "")
    if not label:
        return name_of(view.host)
    is_alone = sum(moment.run_of(each.host) == run for each in moment.host_views) == 1
    return label if is_alone else f"{label} {name_of(view.host)}"


def hosts(found: HostLines, ink: Ink) -> OverviewPanel | None:
    """Return the panel; None where there is no process."""
    if not found.listed:
        return None
    return OverviewPanel(
        Heading(
            found.nouns.capitalize(),
            "  ".join(filter(None, (f"{found.live} of {found.count} live", found.groups))),
            keys=(("3", "Hosts"),),
        ),
        "hosts",
        lambda _: min(found.count, MAX_HOSTS) + 1,
        partial(_lines, found, ink),
        partial(_brief, found, ink),
        least=min(found.count, 2) + 1,
    )


def _lines(found: HostLines, ink: Ink, width: int, height: int) -> list[Text]:
    room = height - 1
    shown = found.listed[: room if found.count <= room else max(1, room - 1)]
    label = min(max(len(each.label) for each in shown), max(8, width // 4))
    lines = [_titles(ink, label, width), *(_line(each, ink, width, label) for each in shown)]
    if len(shown) < found.count:
        lines.append(Text(f"  {found.count - len(shown):,} more: press 3", ink.note))
    return lines


def _brief(found: HostLines, ink: Ink, width: int) -> list[Text]:
    line = Text.assemble(row_name(found.nouns, ink), (f"{found.live} of {found.count} live", ink.figure))
    for each in found.listed:
        words = f"  {each.label}: {each.note}"
        is_wrong = each.severity.rank or each.state is not State.LIVE
        if each.note and is_wrong and line.cell_len + len(words) <= width:
            line.append(words, _style_of(each, ink))
    return [line]


# The columns after the name: title, width, and the least width of the panel that has room for it.
_COLUMNS = (("step", 7, 0), ("own", 7, 56), ("trend", TREND + 2, 46), ("cpu", 6, 38), ("mem", 6, 64))


def _titles(ink: Ink, label: int, width: int) -> Text:
    line = Text(" " * (label + 2), ink.note, no_wrap=True)
    for title, size, least in _COLUMNS:
        if width >= least:
            line.append(f"  {title:<{size - 2}}" if title == "trend" else f"{title:>{size}}")
    return line


def _line(host: HostLine, ink: Ink, width: int, label: int) -> Text:
    sign = text.STATE_SIGNS[host.state], ink.style(ink.colour_of(host.state))
    line = Text.assemble(sign, (f" {shorten(host.label, label):<{label}}", ink.label), no_wrap=True)
    cells = {
        "step": units.seconds(host.step_s),
        "own": units.seconds(host.own_s),
        "cpu": units.share(host.cpu),
        "mem": units.share(host.memory),
    }
    for title, size, least in _COLUMNS:
        if width < least:
            continue
        if title == "trend":
            line.append("  ").append(area(host.past, TREND, 1).lines[0], ink.trend)
        else:
            line.append(f"{cells[title]:>{size}}", ink.note if cells[title] == units.NA else ink.figure)
    if host.note:
        mark = f"{host.severity.sign} " if host.severity.rank else ""
        room = width - line.cell_len - len(mark) - 2
        words = host.brief if host.brief and len(host.note) > room else host.note
        line.append(f"  {mark}{wrapped(words, max(1, room), 1)[0]}", _style_of(host, ink))
    return line


def _style_of(host: HostLine, ink: Ink) -> Style:
    if host.severity.rank:
        return pair(ink, ink.palette.severity_colour(host.severity.rank))
    return ink.note if host.state is State.LIVE else ink.style(ink.colour_of(host.state))
