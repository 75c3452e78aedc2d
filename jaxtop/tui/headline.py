"""The two lines at the top: the header with runs and rates, and the most important facts."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from rich.style import Style
from rich.text import Text

from jaxtop.model import RULES_BY_NAME, Host, Severity, State, launch_rate, pace_of, step_of_run
from jaxtop.model.collectives import latecomers
from jaxtop.model.findings.rules.stragglers import is_by_script
from jaxtop.model.liveness import BY_SEVERITY
from jaxtop.model.stalls.lulls import running_of
from jaxtop.model.steps import past_of
from jaxtop.tui import requests
from jaxtop.tui.core import text
from jaxtop.tui.draw.finding_pane import figure_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jaxtop.model import Finding
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.core.palette import Palette

# A process is named if its steps take this many times the median step of its run.
SLOWER = 1.1
# A launch is reported after this many seconds.
LONG = 20.0
_IN_WORDS = {
    State.DIED: "died",
    State.STOPPED: "stopped",
    State.BLOCKED: "blocked: Python does not answer",
    State.UNREACHABLE: "not reachable from here",
    State.REFUSED: "refuses your key",
    State.GONE: "exited before jaxtop connected",
    State.QUIET: "quiet",
    State.ENDED: "ended",
    State.CONNECTING: "connecting",
}
_UNMET = {
    "connecting": "connecting to",
    "closed": "nothing listens at",
    "unreachable": "no answer from",
    "silent": "stopped, or not an agent, at",
    "deaf": "Python does not answer at",
    "refused": "your key is refused at",
}


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
    if any(view.host.hello for view in moment.hosts):
        return ""
    links = [each.link.state for each in moment.cluster.unmet.values()]
    is_trying = "connecting" in links or State.CONNECTING in moment.states.values()
    return "CONNECTING" if is_trying else "NO HOST"


def _header_parts(moment: Moment, palette: Palette) -> list[tuple[str, str | Style]]:
    names = list(moment.run_names.values())
    live = sum(state is State.LIVE for state in moment.states.values())
    expected = sum(max(run.process_count or 0, len(run.hosts)) for run in moment.runs)
    if not moment.hosts:
        return []
    parts: list[tuple[str, str | Style]] = [
        (names[0] if len(names) == 1 else f"{len(names)} runs", Style(bold=True, meta={"press": "runs"}))
    ]
    parts.append(
        (f"{live}/{expected} hosts live", palette.good if live == expected and live else palette.bad)
    )
    intervals = {
        view.host.hello.interval_ms for view in moment.hosts if view.host.hello and not view.state.is_silent
    }
    if intervals - {requests.USUAL_MS}:
        parts.append((f"reports {requests.every(intervals)}", ""))
    count = len(moment.devices)
    parts.append((f"{count} {'device' if count == 1 else 'devices'}", ""))
    # Steps come before launches, because a narrow screen has no room for all parts.
    hosts = [view.now for view in moment.hosts]
    if len(moment.runs) == 1:
        parts += _steps(moment, hosts, palette)
    rates = [rate for host in hosts if (rate := launch_rate(moment.cluster, host)) is not None]
    parts.append((f"launches {text.rate(sum(rates) if rates else None)}", ""))
    return parts


def _steps(moment: Moment, hosts: list[Host], palette: Palette) -> list[tuple[str, str]]:
    step = step_of_run(hosts)
    rhythmic = [host for host in hosts if host.pulse.rhythm]
    still = [past + moment.now - (host.pulse_at or 0) for host in rhythmic if (past := past_of(host))]
    if step is not None and still and len(still) == len(rhythmic):
        # When no host completes steps, the earlier step time and rate no longer describe the run.
        return [(f"last step {text.age(min(still))} ago", palette.warning)]
    parts = []
    if step is not None:
        parts.append((f"step {text.micros(step.p50_s * 1e6)}", ""))
        if step.slowest_s > SLOWER * step.p50_s:
            who = step.slowest.process_index
            parts.append((f"process {who} {text.micros(step.slowest_s * 1e6)}", palette.warning))
    known = [steps for host in hosts if (steps := pace_of(host)) is not None]
    if known:
        # The hosts of a run step together: the slowest host determines the rate of the run.
        parts.append((f"steps {text.rate(min(known))}", ""))
    return parts


def facts(
    moment: Moment,
    rejected: dict[str, int],
    width: int,
    palette: Palette,
    asking: Sequence[str] = (),
    *,
    notes: Sequence[str] = (),
    proven: Finding | None = None,
) -> Text:
    """Return the second line: open requests and problems, or a summary of the run if there are none.

    Where the screen shows the proof of a finding, its figures come first.
    """
    line = Text(no_wrap=True)
    refused = (*rejected.items(), *moment.cluster.rejected.items())
    skipped = [("#", f"{count} messages skipped: {what}", palette.warning) for what, count in refused]
    figures = [
        *_troubles(moment, palette),
        *_stalls(moment, palette),
        *_programs(moment, palette),
        *_black_boxes(moment, palette),
        *_latecomers(moment, palette),
    ]
    found = [
        *([_proof(proven, palette)] if proven is not None else []),
        *(("?", words, palette.accent) for words in asking),
        *figures,
        *_findings(moment, palette, _SHOWN if figures else (), proven),
        *skipped,
        *(("#", note, palette.warning) for note in notes),
        *_compiling(moment, palette),
        *_running(moment, palette),
    ]
    dropped = moment.cluster.dropped.count
    note = f"{dropped:,} exited process{'' if dropped == 1 else 'es'} dropped"
    quiet = [("·", note, palette.muted)] if dropped else []
    for sign, words, style in [*(found or [_all_well(moment, palette)]), *quiet]:
        part = text.printable(f"{sign} {words}")
        if line.cell_len and line.cell_len + len(part) + 7 > width:
            line.append(" …", palette.muted)
            break
        if line.cell_len:
            line.append("  ·  ", palette.muted)
        line.append(part, style)
    line.truncate(width, overflow="ellipsis")
    return line


def _troubles(moment: Moment, palette: Palette) -> list[tuple[str, str, str]]:
    found = []
    for state in (each for each in BY_SEVERITY if each in _IN_WORDS):
        members = [view.host for view in moment.hosts if view.state is state]
        if not members:
            continue
        who = moment.label(members[0]) if len(members) == 1 else f"{len(members)} hosts"
        ago = ""
        if state is State.DIED:
            times = {text.age(moment.now - host.heard_at) for host in members if host.heard_at}
            ago = f" {times.pop()} ago" if len(times) == 1 else ""
        found.append((text.STATE_SIGNS[state], f"{who} {_IN_WORDS[state]}{ago}", palette.of_state(state)))
    for unmet in moment.cluster.unmet.values():
        words = f"{_UNMET.get(unmet.link.state, unmet.link.state)} {unmet.endpoint}"
        found.append(("…" if unmet.link.state == "connecting" else "#", words, palette.warning))
    return found


def _stalls(moment: Moment, palette: Palette) -> list[tuple[str, str, str]]:
    reported = [each.reported for each in moment.cluster.stalls.values() if each.reported is not None]
    return [
        ("!", each.text, palette.bad if each.severity == "critical" else palette.warning) for each in reported
    ]


def _black_boxes(moment: Moment, palette: Palette) -> list[tuple[str, str, str]]:
    """Return the processes that cannot write the black box they were configured for, by reason."""
    found: dict[str, list[Host]] = {}
    for view in moment.hosts:
        if not view.state.is_silent and (why := view.host.black_box_trouble):
            found.setdefault(why, []).append(view.host)
    return [
        ("!", f"{moment.label(hosts[0]) if len(hosts) == 1 else f'{len(hosts)} hosts'} {why}", palette.bad)
        for why, hosts in found.items()
    ]


def _latecomers(moment: Moment, palette: Palette) -> list[tuple[str, str, str]]:
    """Return each live straggler once, with the longest wait it causes."""
    found = []
    by_script = {each.subject.agent for each in moment.findings if is_by_script(each)}
    for late in latecomers(moment.cluster):
        host = moment.host(late.agent)
        is_live = moment.states.get(late.agent) is State.LIVE
        if host is not None and is_live and late.agent not in by_script:
            is_known = host.process_index is not None and len(moment.runs) == 1
            who = f"process {host.process_index}" if is_known else moment.label(host)
            words = f"{who} is late: others wait {text.micros(late.late_us)}"
            found.append(("!", f"{words} in {late.program}", palette.warning))
    return found


# These findings are shown from the figures themselves, sooner than a rule reports them.
_SHOWN = frozenset({"host_lost", "stalled", "straggler", "program_mismatch", "recompilation", "black_box"})


def _proof(finding: Finding, palette: Palette) -> tuple[str, str, str]:
    """Return the figures that a finding rests on, which the screen with its proof may not all have."""
    figures = ", ".join(f"{each.name} {figure_of(each)}" for each in finding.evidence)
    title = RULES_BY_NAME[finding.rule].title
    return "▲", f"{title}: {figures or finding.text}", palette.of_severity(finding.severity.rank)


def _findings(
    moment: Moment, palette: Palette, shown: Collection[str], proven: Finding | None
) -> list[tuple[str, str, str]]:
    return [
        ("▲", f"{RULES_BY_NAME[each.rule].title}: {each.text}", palette.of_severity(each.severity.rank))
        for each in moment.findings
        if each.severity is not Severity.INFO
        and (each.rule not in shown or is_by_script(each))
        and each is not proven
    ]


def _programs(moment: Moment, palette: Palette) -> list[tuple[str, str, str]]:
    found = []
    for difference in moment.differences:
        others = [agent for agents in difference.agents[1:] for agent in agents]
        host = moment.host(others[0])
        who = moment.label(host) if host and len(others) == 1 else f"{len(others)} hosts"
        found.append(("≠", f"{difference.name}: {who} compiled a different program", palette.bad))
    storms = {name for view in moment.hosts for name in view.now.programs.recompiling}
    found += [("!", f"{name} is recompiled repeatedly", palette.warning) for name in sorted(storms)]
    return found


def _compiling(moment: Moment, palette: Palette) -> list[tuple[str, str, str]]:
    running = [
        (view.now.pulse.at_ms - each.since_ms, each.function)
        for view in moment.hosts
        for each in view.now.pulse.compiling
    ]
    if not running:
        return []
    longest, function = max(running)
    return [("*", f"compiling {function} for {text.age(longest / 1000)}", palette.warning)]


def _running(moment: Moment, palette: Palette) -> list[tuple[str, str, str]]:
    running = [each for view in moment.hosts if (each := running_of(view.now)) is not None]
    longest = max(running, key=lambda each: each.seconds, default=None)
    if longest is None or longest.seconds < LONG:
        return []
    return [("*", f"{longest.function} has run for {text.age(longest.seconds)}", palette.muted)]


def _all_well(moment: Moment, palette: Palette) -> tuple[str, str, str]:
    if not moment.hosts:
        return "…", "waiting for a run", palette.muted
    words = ["all hosts live"]
    if moment.meshes:
        words.append("mesh " + " × ".join(f"{name} {size}" for name, size in moment.meshes[0].axes))
    holders = [device for device in moment.devices if device.used_bytes is not None]
    if holders:
        # Among devices with the same displayed size, name the first: otherwise the line would flicker.
        largest = max(device.used_bytes or 0 for device in holders)
        most = text.size(largest)
        # Bisect for the smallest size with the same text, because there may be thousands of devices.
        least = bisect_left(range(largest), True, key=lambda size: text.size(size) == most)
        alike = [device for device in holders if (device.used_bytes or 0) >= least]
        more = f" (and {len(alike) - 1:,} more)" if len(alike) > 1 else ""
        limit = "" if any(device.limit_bytes for device in holders) else ", no limit known"
        words.append(f"most memory on {moment.label_of(alike[0])}: {most}{more}{limit}")
    return "●", ", ".join(words), palette.good
