"""The first line: runs, live hosts, devices, steps and launches; the mode and the time on the right."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.style import Style
from rich.text import Text

from jaxtop.base import tested_versions, units
from jaxtop.model import Host, LinkState, State, launch_rate, pace_of
from jaxtop.model.steps.views import past_of
from jaxtop.model.wall_time.time_spent import goodput
from jaxtop.tui import requests
from jaxtop.tui.core import text

if TYPE_CHECKING:
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.core.palette import Palette

# A process is named if its steps take this many times the median step of its run.
SLOW_STEP_RATIO = 1.1


class TimeStatus(NamedTuple):
    """The time status of the view: the mode, the time shown, whether it is live, and the recording status."""

    mode: str
    clock: str
    is_live: bool
    recording: str = ""


def header(moment: Moment, status: TimeStatus, width: int, palette: Palette) -> Text:
    """Return the header: runs, live hosts, devices, steps and launches; mode and time on the right."""
    right = Text()
    if status.recording:
        right.append(f"● {status.recording}  ", palette.bad)
    mode = _without_host(moment) if status.is_live else ""
    is_live = status.is_live and not mode
    right.append(f" {mode or status.mode} ", f"bold reverse {palette.good if is_live else palette.warning}")
    right.append(f" {status.clock}")
    line = Text(no_wrap=True)
    line.append("jaxtop ", "bold")
    for part, style in _header_parts(moment, palette):
        if line.cell_len + len(part) + 2 + right.cell_len < width:
            line.append("  ")
            line.append(text.printable(part), style)
    line.append(" " * max(1, width - line.cell_len - right.cell_len))
    line.append_text(right)
    line.truncate(width)
    return line


def _without_host(moment: Moment) -> str:
    """Return what the view does instead of showing a live run; empty once a host has reported."""
    if any(view.host.hello for view in moment.host_views):
        return ""
    links = [each.link.state for each in moment.cluster.unmet.values()]
    is_trying = LinkState.CONNECTING in links or State.CONNECTING in moment.states.values()
    return "CONNECTING" if is_trying else "NO HOST"


def _header_parts(moment: Moment, palette: Palette) -> list[tuple[str, str | Style]]:
    if not moment.host_views:
        return []
    names = list(moment.run_names.values())
    live, expected = moment.live_and_expected
    parts: list[tuple[str, str | Style]] = [
        (_name(moment, names), Style(bold=True, meta={"press": "runs"})),
        (f"{live}/{expected} {moment.nouns()} live", palette.good if live == expected else palette.bad),
    ]
    intervals = {
        view.host.hello.interval_ms
        for view in moment.host_views
        if view.host.hello and not view.state.is_silent
    }
    if intervals - {requests.USUAL_MS}:
        parts.append((f"reports {requests.every(intervals)}", ""))
    count = len(moment.device_views)
    parts.append((f"{count} {'device' if count == 1 else 'devices'}", ""))
    # Steps come before launches, because a narrow screen has no room for all parts.
    hosts = [view.current for view in moment.host_views]
    if len(moment.runs) == 1 or len(moment.groups) > 1:
        parts += _steps(moment, [view.current for view in moment.stepping], palette)
    if len(moment.runs) == 1:
        share = goodput(view.host for view in moment.host_views)
        if share is not None:
            parts.append((f"goodput {units.share(share)} so far", ""))
    rates = [rate for host in hosts if (rate := launch_rate(moment.cluster, host)) is not None]
    parts.append((f"launches {units.rate(sum(rates) if rates else None)}", ""))
    versions = {view.host.hello.jax for view in moment.host_views if view.host.hello}
    untested = sorted(filter(None, map(tested_versions.untested_name, versions)))
    if untested:
        parts.append((f"{' and '.join(untested)} untested", palette.muted))
    return parts


def _name(moment: Moment, names: list[str]) -> str:
    """Return the name of the run, or of the runs that belong together."""
    if len(names) == 1:
        return names[0]
    families = {group.family for group in moment.groups}
    if len(families) != 1 or len(moment.roles) < len(names):
        return f"{len(names)} runs"
    first = moment.groups[0].runs[0]
    return f"{first.name or first.id}: {', '.join(map(str, moment.groups))}"


def _steps(moment: Moment, hosts: list[Host], palette: Palette) -> list[tuple[str, str]]:
    step = moment.step
    rhythmic = [host for host in hosts if host.pulse.rhythm]
    still = [past + moment.now - (host.pulse_at or 0) for host in rhythmic if (past := past_of(host))]
    if step is not None and still and len(still) == len(rhythmic):
        # When no host completes steps, the earlier step time and rate no longer describe the run.
        return [(f"last step {units.age(min(still))} ago", palette.warning)]
    parts = []
    if step is not None:
        parts.append((f"step {units.micros(step.p50_s * 1e6)}", ""))
        if step.slowest_s > SLOW_STEP_RATIO * step.p50_s:
            who = step.slowest.number
            parts.append((f"{who} {units.micros(step.slowest_s * 1e6)}", palette.warning))
    known = [steps for host in hosts if (steps := pace_of(host)) is not None]
    if known:
        # The hosts of a run step together: the slowest host determines the rate of the run.
        parts.append((f"steps {units.rate(min(known))}", ""))
    return parts
