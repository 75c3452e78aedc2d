"""What the panels of the overview show of a moment: its step, memory, hosts, mesh, events and programs."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from jaxtop.base import units
from jaxtop.base.names import shorten
from jaxtop.model import (
    FIGURES,
    RULES_BY_NAME,
    STEP_TIME,
    Finding,
    State,
    growers,
    memory_views,
    pace_of,
    recent,
    step_of_run,
)
from jaxtop.model.figure_type import Level
from jaxtop.model.hosts import named
from jaxtop.model.wall_time.parts import shares_of
from jaxtop.model.wall_time.step_parts import run_parts
from jaxtop.tui.columns.events import COMPILE, ONGOING, ongoing_events
from jaxtop.tui.core import text
from jaxtop.tui.core.metrics import METRICS, wait_metric
from jaxtop.tui.core.moment import name_of
from jaxtop.tui.draw import overview as draw
from jaxtop.tui.draw.mesh.panel import MeshMap
from jaxtop.tui.draw.panes.collective import axes_in_words, straggler_in_words
from jaxtop.tui.draw.reading import EMPTY as NO_CODE
from jaxtop.tui.draw.reading import Scale, read

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from jaxtop.model import HostView, LoggedEvent, ProgramView
    from jaxtop.model.wall_time.step_parts import RunParts
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.core.palette import Palette

# The hosts that the panel can list, and the points of their past.
MOST_HOSTS, PAST, STEPS = 40, 8, 200
# The collectives and programs that the panels list at most.
MOST_LISTED = 12
# From this part of the gap, and from windows of this age in seconds on, the panel of the parts says so.
CORE_FROM, OLD_FROM = 0.1, 30.0
_View = TypeVar("_View")
_CPU, _MEMORY = FIGURES["process_cpu_cores"], FIGURES["memory_used_bytes"]


def overview(moment: Moment, palette: Palette) -> draw.Overview:
    """Return what the panels show of a moment."""
    now = [view.now for view in moment.host_views]
    step = step_of_run(now)
    paces = [pace for host in now if (pace := pace_of(host)) is not None]
    first = next((view.host.agent for view in moment.host_views if view.now.pulse.rhythm), None)
    past = recent(moment.cluster, first, STEP_TIME, 0, STEPS) if first else []
    found = run_parts(moment.cluster, moment.now)
    holder = next(iter(moment.fullest), None)
    held = memory_views(moment.cluster, [holder]) if holder else []
    grows = next(iter(growers(moment.cluster)), None)
    return draw.Overview(
        step_s=step.p50_s if step else None,
        per_second=min(paces, default=None),
        steps=past,
        parts=[draw.StepPart(*each) for each in shares_of(found and found.parts)],
        accounted=found.parts.accounted if found else None,
        about_parts=_about_parts(moment, found),
        why_no_parts=_why_no_parts(moment),
        memory=held[0] if held else None,
        memory_label=moment.label_of(holder) if holder else "",
        grows=f"{grows.name or grows.created or 'unnamed arrays'} +{units.size(grows.bytes_per_minute)}/min"
        if grows
        else "",
        mesh=_mesh(moment),
        collectives=_collectives(moment),
        programs=_programs(moment),
        hosts=_hosts(moment),
        host_count=len(moment.host_views),
        nouns=moment.nouns(),
        live=sum(view.state is State.LIVE for view in moment.host_views),
        devices=len(moment.device_views),
        events=[
            (text.time_of_day(event.at), text.printable(words), palette.of_level(Level(event.rank)))
            for event, words in islice(_news(moment), MOST_HOSTS)
        ],
    )


def _why_no_parts(moment: Moment) -> str:
    if not any(view.now.pulse_at for view in moment.host_views):
        return "no process has reported yet"  # nor can any be asked
    return "no profiler window yet: press c for one now"


def _about_parts(moment: Moment, found: RunParts | None) -> str:
    """Return what the shares are of: which processes, what waits for a core, and how old the windows are."""
    if found is None:
        return ""
    words, mean = [], found.parts
    late = [moment.cluster.hosts[agent] for agent in found.late]
    if late:
        words.append(f"of those that wait for {named(late)}")
    if mean.host_gap and mean.delayed >= CORE_FROM * mean.host_gap:
        words.append(f"{mean.delayed / mean.host_gap:.0%} of the gap waits for a core")
    if mean.at is not None and moment.now - mean.at >= OLD_FROM:
        words.append(f"windows {units.age(moment.now - mean.at)} old")
    return ", ".join(words) or "of wall time"


def _news(moment: Moment) -> Iterator[tuple[LoggedEvent, str]]:
    """Yield the events with their texts, the newest first; compilations would bury all others."""
    ongoing = ongoing_events(moment)
    for event in reversed(moment.cluster.events):
        if event.kind != COMPILE:
            yield event, (ONGOING if event in ongoing else "") + event.text


def _collectives(moment: Moment) -> Sequence[Sequence[str]]:
    """Return the collectives that devices wait in longest, one for each kind and axes, with their titles."""
    longest = sorted(moment.collective_views, key=lambda view: -(view.wait_us or 0))
    views = _first_of_each(longest, lambda view: (view.kind, axes_in_words(view)))
    rows = [
        (
            view.kind,
            axes_in_words(view),
            units.micros(view.p50_us),
            units.micros(view.wait_us),
            straggler_in_words(view),
        )
        for view in views
    ]
    return [("", "axes", "p50", "wait", "straggler"), *rows] if rows else []


def _programs(moment: Moment) -> Sequence[Sequence[str]]:
    """Return the programs that are launched most often, one for each function, with their titles.

    Without allocators that count, no program has a headroom.
    """
    often = sorted(moment.program_views, key=lambda view: (-_rate(view), -(view.needs_bytes or 0)))
    views = _first_of_each(often, lambda view: view.function)
    has_headroom = any(view.headroom_bytes is not None for view in views)
    rows = [
        (
            shorten(view.function, 16),
            units.number(_rate(view), 1),
            units.size(view.needs_bytes),
            *([units.size(view.headroom_bytes)] if has_headroom else []),
        )
        for view in views
    ]
    titles = ("", "launch/s", "needs", *(["headroom"] if has_headroom else []))
    return [titles, *rows] if rows else []


def _first_of_each(views: Iterable[_View], key: Callable[[_View], Hashable]) -> list[_View]:
    found: dict[Hashable, _View] = {}
    for view in views:
        found.setdefault(key(view), view)
    return list(found.values())[:MOST_LISTED]


def _hosts(moment: Moment) -> list[draw.HostLine]:
    """Return the hosts, those with findings and in the worst states first."""
    about = {each.subject.agent: each for each in reversed(moment.findings) if each.subject.agent}
    ranks = {agent: each.severity.rank for agent, each in about.items()}
    order = sorted(
        moment.host_views, key=lambda view: (-view.state.severity, -ranks.get(view.host.agent, -1))
    )
    return [_host(view, about.get(view.host.agent), moment) for view in order[:MOST_HOSTS]]


def _host(view: HostView, finding: Finding | None, moment: Moment) -> draw.HostLine:
    pulse, rhythm = view.now.pulse, view.now.pulse.rhythm
    used, full = _MEMORY.read(pulse, 0), _MEMORY.full(pulse, 0)
    note = ""
    if finding is not None:
        note = RULES_BY_NAME[finding.rule].title.lower()
        note += f" · {finding.subject.source}" if finding.subject.source else ""
    return draw.HostLine(
        view.state,
        name_of(view.host),
        None if rhythm is None or rhythm.p50_us is None else rhythm.p50_us / 1e6,
        recent(moment.cluster, view.host.agent, STEP_TIME, 0, PAST),
        _CPU.read(pulse, 0),
        used / full if used is not None and full else None,
        note,
    )


def _mesh(moment: Moment) -> MeshMap | None:
    """Return the first mesh by its first axis, coloured by waits, or by memory where nothing waits."""
    metric = wait_metric(moment) if moment.waits_by_device else METRICS[0]
    reading = read(moment.device_views, metric)
    codes = {(device.run, device.id): reading.codes[i] for i, device in enumerate(moment.device_views)}
    if not moment.mesh_views:
        return None
    mesh = moment.mesh_views[0]
    names = " × ".join(f"{name} {size}" for name, size in mesh.axes)
    (axis, rows) = mesh.axes[0]
    each = max(1, len(mesh.device_ids) // max(1, rows))

    def row(i: int) -> Sequence[int]:
        return [
            codes.get((mesh.run, device_id), NO_CODE)
            for device_id in mesh.device_ids[i * each : (i + 1) * each]
        ]

    limit = ", relative" if reading.scale is Scale.OPEN else ""
    title = f"{metric.name}{limit}  {names}"
    return MeshMap(title, [(f"{axis} {i}", row(i)) for i in range(rows)], reading.scale)


def _rate(view: ProgramView) -> float:
    return view.launches_per_second or view.function_per_second or 0.0
