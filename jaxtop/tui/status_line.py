"""The second line: open requests and problems, or a summary of the run if there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from jaxtop.base import units
from jaxtop.model import RULES_BY_NAME, Finding, Host, LinkState, Severity, State
from jaxtop.model.findings.health import health_of
from jaxtop.model.host import longest_compile
from jaxtop.model.liveness import BY_SEVERITY
from jaxtop.model.naming.sentences import counted
from jaxtop.model.stalls.case import LOST
from jaxtop.model.stalls.lulls import running_of
from jaxtop.tui.core import text
from jaxtop.tui.draw.panes.finding import figure_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from jaxtop.model.finding import FindingKey
    from jaxtop.model.findings.health import Health
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.core.palette import Palette

# A launch is reported after this many seconds.
LONG_LAUNCH_S = 20.0
_IN_WORDS = {
    State.DIED: "died",
    State.STOPPED: "stopped",
    State.BLOCKED: "blocked: Python does not answer",
    State.UNREACHABLE: "not reachable from here",
    State.REFUSED: "refuses your key",
    State.GONE: "had left before jaxtop connected",
    State.QUIET: "quiet",
    State.ENDED: "ended",
    State.CONNECTING: "connecting",
}
_UNMET = {
    LinkState.CONNECTING: "connecting to",
    LinkState.CLOSED: "nothing listens at",
    LinkState.UNREACHABLE: "no answer from",
    LinkState.STOPPED: "stopped, or not an agent, at",
    LinkState.BLOCKED: "Python does not answer at",
    LinkState.REFUSED: "your key is refused at",
}
_SIGN_OF_VERDICT = {
    "good": "●",
    "muted": "…",
    "warning": Severity.WARNING.sign,
    "bad": Severity.CRITICAL.sign,
}


class StatusPart(NamedTuple):
    """A part of the line. `rule` and `about` are those of the finding that says the same, if one does."""

    sign: str
    words: str
    style: str
    rule: str = ""
    about: str = ""

    def says(self, finding: Finding) -> bool:
        """Whether it says the same as a finding."""
        abouts = (finding.about, finding.subject.agent, finding.subject.program)
        return self.rule == finding.rule and (not self.about or self.about in abouts)


class AppStatus(NamedTuple):
    """What the app adds: open requests, what its feed skipped, the finding shown, those that are muted."""

    open_requests: Sequence[str] = ()
    rejected: Sequence[tuple[str, int]] = ()
    notes: Sequence[str] = ()
    proven: FindingKey | None = None
    muted: Collection[FindingKey] = ()
    is_overview: bool = False


def status_line(parts: Sequence[StatusPart], width: int, palette: Palette) -> Text:
    """Return the parts as one line of at most this width."""
    line = Text(no_wrap=True)
    for each in parts:
        part = text.printable(f"{each.sign} {each.words}")
        if line.cell_len and line.cell_len + len(part) + 7 > width:
            line.append(" …", palette.muted)
            break
        if line.cell_len:
            line.append("  ·  ", palette.muted)
        line.append(part, each.style)
    line.truncate(width, overflow="ellipsis")
    return line


def status_parts(moment: Moment, app: AppStatus, palette: Palette) -> list[StatusPart]:
    """Return the parts of the line in order. The findings that the user muted are left out.

    Where the screen shows the proof of a finding, the figures of that finding come first. On the overview,
    which lists all findings, the line begins with the verdict instead.
    """
    proofs = [each for each in moment.findings if each.key == app.proven]
    listed = [each for each in moment.findings if each.key not in app.muted]
    states = [*_troubles(moment, palette), *_stalls(moment, palette), *_black_boxes(moment, palette)]
    if app.is_overview:
        states = [part for part in states if not any(map(part.says, listed))]
        findings = []
    else:
        findings = [each for each in listed if each not in proofs and _is_news(each, states)]
    found = [
        *(_finding(each, palette, _figures(each)) for each in proofs),
        *(StatusPart("?", words, palette.accent) for words in app.open_requests),
        *(each for each in states if not any(map(each.says, proofs))),
        *(_finding(each, palette, each.text) for each in findings),
        *_skipped(moment, app, palette),
        # Before the first step, the overview lists what compiles.
        *(_compiling(moment, palette) if moment.step or not app.is_overview else ()),
        *_running(moment, palette),
    ]
    if app.is_overview:
        found.insert(0, _verdict(moment, palette, app.muted, is_short=bool(found)))
    return [*(found or [_all_well(moment, palette, app.muted)]), *_dropped(moment, palette)]


def _is_news(finding: Finding, states: Sequence[StatusPart]) -> bool:
    """Return whether no state reports it, which it does sooner than a rule; notes are not news."""
    return finding.severity is not Severity.INFO and not any(part.says(finding) for part in states)


def _skipped(moment: Moment, app: AppStatus, palette: Palette) -> Iterator[StatusPart]:
    for what, count in (*app.rejected, *moment.cluster.rejected.items()):
        yield StatusPart("#", f"{count} messages skipped: {what}", palette.warning)
    for note in app.notes:
        yield StatusPart("#", note, palette.warning)


def _dropped(moment: Moment, palette: Palette) -> Iterator[StatusPart]:
    if dropped := moment.cluster.dropped.count:
        note = f"{dropped:,} exited process{'' if dropped == 1 else 'es'} dropped"
        yield StatusPart("·", note, palette.muted)


def _troubles(moment: Moment, palette: Palette) -> Iterator[StatusPart]:
    """Yield the states of hosts that are not live; crashes once, as findings, where a rule reports them."""
    has_crashes = any(each.rule == "crashed" for each in moment.findings)
    for state in (each for each in BY_SEVERITY if each in _IN_WORDS):
        members = [
            view.host
            for view in moment.host_views
            if view.state is state and not (has_crashes and view.host.error is not None)
        ]
        if not members:
            continue
        who = _hosts_text(moment, members)
        ago = ""
        if state is State.DIED:
            times = {units.age(moment.now - host.heard_at) for host in members if host.heard_at}
            ago = f" {times.pop()} ago" if len(times) == 1 else ""
        words, style = f"{who} {_IN_WORDS[state]}{ago}", palette.state_colour(state)
        yield StatusPart(
            text.STATE_SIGNS[state], words, style, "host_lost" if state in LOST else "", str(state)
        )
    for unmet in moment.cluster.unmet.values():
        words = f"{_UNMET.get(unmet.link.state, unmet.link.state)} {unmet.endpoint}"
        yield StatusPart("…" if unmet.link.state is LinkState.CONNECTING else "#", words, palette.warning)


def _hosts_text(moment: Moment, hosts: Sequence[Host]) -> str:
    return moment.label(hosts[0]) if len(hosts) == 1 else counted(len(hosts), hosts)


def _stalls(moment: Moment, palette: Palette) -> Iterator[StatusPart]:
    for stall in moment.cluster.stalls.values():
        if (each := stall.reported) is not None:
            style = palette.bad if each.severity == "critical" else palette.warning
            yield StatusPart("!", each.text, style, "stalled")


def _black_boxes(moment: Moment, palette: Palette) -> Iterator[StatusPart]:
    """Yield the processes that cannot write the black box they were configured for, by reason."""
    found: dict[str, list[Host]] = {}
    for view in moment.host_views:
        if not view.state.is_silent and (why := view.host.black_box_trouble):
            found.setdefault(why, []).append(view.host)
    for why, hosts in found.items():
        yield StatusPart("!", f"{_hosts_text(moment, hosts)} {why}", palette.bad, "black_box")


def _figures(finding: Finding) -> str:
    """Return the figures that a finding rests on, which the screen with its proof may not all have."""
    return ", ".join(f"{each.name} {figure_of(each)}" for each in finding.evidence) or finding.text


def _finding(finding: Finding, palette: Palette, words: str) -> StatusPart:
    title = RULES_BY_NAME[finding.rule].title
    return StatusPart(
        finding.severity.sign, f"{title}: {words}", palette.severity_colour(finding.severity.rank)
    )


def _compiling(moment: Moment, palette: Palette) -> list[StatusPart]:
    longest = max(
        filter(None, (longest_compile(view.current.pulse) for view in moment.host_views)), default=None
    )
    if longest is None:
        return []
    seconds, function = longest
    return [StatusPart("*", f"compiling {function} for {units.age(seconds)}", palette.warning)]


def _running(moment: Moment, palette: Palette) -> list[StatusPart]:
    running = [each for view in moment.host_views if (each := running_of(view.current)) is not None]
    longest = max(running, key=lambda each: each.seconds, default=None)
    if longest is None or longest.seconds < LONG_LAUNCH_S:
        return []
    return [StatusPart("*", f"{longest.function} has run for {units.age(longest.seconds)}", palette.muted)]


def _verdict(
    moment: Moment, palette: Palette, muted: Collection[FindingKey], *, is_short: bool
) -> StatusPart:
    """Return the verdict; in short, where other facts follow."""
    sentence, role = _health(moment, muted)
    words = sentence.partition(" · ")[0] if is_short else sentence
    return StatusPart(_SIGN_OF_VERDICT[role], words, getattr(palette, role))


def _health(moment: Moment, muted: Collection[FindingKey]) -> Health:
    return health_of(
        moment.cluster, moment.host_views, moment.findings, now=moment.now, since=moment.since, muted=muted
    )


def _all_well(moment: Moment, palette: Palette, muted: Collection[FindingKey]) -> StatusPart:
    """Return the summary of a run without problems; it is green only where the overview's verdict is."""
    if not moment.host_views:
        return StatusPart("…", "waiting for a run", palette.muted)
    live, expected = moment.live_and_expected
    nouns = moment.nouns()
    words = [f"all {nouns} live" if live == expected else f"{live} of {expected} {nouns} live"]
    if moment.mesh_views:
        words.append("mesh " + " × ".join(f"{name} {size}" for name, size in moment.mesh_views[0].axes))
    if moment.fullest:
        first, *others = moment.fullest
        more = f" (and {len(others):,} more)" if others else ""
        limit = "" if any(device.limit_bytes for device in moment.device_views) else ", no limit known"
        words.append(f"most memory on {moment.label_of(first)}: {units.size(first.used_bytes)}{more}{limit}")
    is_good = _health(moment, muted).role == "good"
    return StatusPart(
        *(("●", ", ".join(words), palette.good) if is_good else ("·", ", ".join(words), palette.muted))
    )
