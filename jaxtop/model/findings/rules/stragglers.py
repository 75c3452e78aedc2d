"""Rules about a process or device that all others wait for in their collectives."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.model.collectives.doubts import doubts_about
from jaxtop.model.collectives.sentences import lateness_in_words, op_with_axes
from jaxtop.model.collectives.verdict import LATE_MS, LATE_MS_ON_CPU
from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.gap_findings import SAMPLES, core_clause, gap_over, place_of, source_of
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.naming.sentences import acting
from jaxtop.model.tuning import STRAGGLER, Number
from jaxtop.model.wall_time.gaps import LATE_SCRIPT_SHARE
from jaxtop.model.wall_time.late_scripts import LATE_SCRIPT_MS
from jaxtop.wire import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model.collectives.views import CollectiveView
    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.wall_time.gaps import Gap
    from jaxtop.model.windows import Straggler
    from jaxtop.wire import ActiveLine

CRITICAL_SHARE = Number("critical_share", 0.25, "lateness is critical from this share of a step on")
# A process is as slow as the late one if its main thread is in the script for at least this part of its time.
EQUALLY_SLOW_RATIO = 0.8
OF_LATENESS = Number("share", 0.7, "reported if the others of its process wait this share of its lateness")
TOO_FEW_WINDOWS = "too few windows of the profiler yet"
_WINDOWS = "profiler windows"
NO_COLLECTIVES = "no collectives were measured"


def _straggler(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for each late process: by its script, or by the collectives in which others wait."""
    late_scripts, views = facts.late_scripts, facts.collectives
    if late_scripts:
        even = _as_slow(facts, late_scripts)
        yield _evenly(facts, even) if even else _script_finding(facts, late_scripts)
    elif facts.perhaps_late:
        yield _perhaps(facts.perhaps_late)
    elif not views:
        raise Unmeasured(NO_COLLECTIVES)
    by_script = {each.host.agent for each in late_scripts}
    worst: dict[str, tuple[Straggler, CollectiveView]] = {}
    for view in views:
        late = view.straggler
        if late is None or late.agent in by_script:
            continue
        if late.agent not in worst or late.late_us > worst[late.agent][0].late_us:
            worst[late.agent] = late, view
    for late, view in worst.values():
        even = _as_slow(facts, [each for each in facts.gaps if each.host.agent == late.agent])
        yield _evenly(facts, even, view.op) if even else _collective_finding(facts, late, view)
    if not (late_scripts or facts.perhaps_late) and not any(view.is_enough for view in views):
        raise Unmeasured(_why_few(facts))


def _why_few(facts: RunFacts) -> str:
    return next(iter(doubts_about(facts.cluster, facts.run.id).words), TOO_FEW_WINDOWS)


def _in_script(gap: Gap) -> tuple[ActiveLine | None, str]:
    """Return the line of the script with most samples, and its place as the end of a sentence."""
    found = gap.line(SCRIPT)
    return (None, "") if found is None else (found[0], f": {place_of(found[0])}")


def _script_finding(facts: RunFacts, late: list[Gap]) -> Finding:
    """Return the finding of the processes whose main threads are in the script while all others wait."""
    worst = max(late, key=lambda each: facts.waits_for(each.host.agent))
    host, (line, where) = worst.host, _in_script(worst)
    at, many = host.pulse_at, len(late) > 1
    step_ms = facts.step_ms or worst.step_ms  # all wait: it is the step of all
    share = facts.waits_for(host.agent)
    ms = share * step_ms
    return Finding(
        _severity(facts, share),
        0.9,
        f"{acting([each.host for each in late], 'is', 'are')} late: the others wait "
        f"{units.ms(ms)} ms of a {units.ms(step_ms)} ms step ({share:.0%}) for "
        f"{'their scripts' if many else 'its script'}{where}",
        Subject.of(host, source=source_of(line)),
        about=host.agent,
        cost=FindingCost(ms, share),
        evidence=(
            Evidence("wait of the others", share, "ratio", "steps and windows", at),
            Evidence("step longer than its programs", worst.share, "ratio", "steps and windows", at),
            Evidence("main thread in the script", worst.script, "ratio", SAMPLES, at),
            Evidence("processes", len(late), source=SAMPLES, at=at),
        ),
        proof=Proof("stacks", row=host.agent),
        explains=("slower_than_before", "communication_bound"),
        advice="Make that line faster on this host, or run it on another thread while the devices compute: "
        "look at its disk, its network, its share of the data.",
    )


def _perhaps(late: list[Gap]) -> Finding:
    """Return the note on processes that are late, unless their devices compute while their scripts run."""
    worst = late[0]
    host, (line, where) = worst.host, _in_script(worst)
    return Finding(
        Severity.INFO,
        0.5,
        f"{acting([each.host for each in late], 'may be', 'may be')} late: {worst.script:.0%} of a "
        f"{units.ms(worst.step_ms)} ms step in {'their scripts' if len(late) > 1 else 'its script'}, "
        f"unlike the others{where}",
        Subject.of(host, source=source_of(line)),
        about=host.agent,
        evidence=(
            Evidence("main thread in the script", worst.script, "ratio", SAMPLES, host.pulse_at),
            Evidence("processes", len(late), source=SAMPLES, at=host.pulse_at),
        ),
        proof=Proof("stacks", row=host.agent),
        advice="No recent window of the profiler shows whether its devices compute meanwhile: take one [c].",
    )


def _as_slow(facts: RunFacts, late: Sequence[Gap]) -> list[Gap]:
    """Return the late processes with others that would be late without them; none if there are no others."""
    agents = {each.host.agent for each in late}
    least = EQUALLY_SLOW_RATIO * max((each.script for each in late if each.is_in_each_step), default=1.0)
    others = [
        each
        for each in facts.gaps
        if each.host.agent not in agents
        and each.is_in_each_step
        and each.most_script >= max(LATE_SCRIPT_SHARE, least)
    ]
    return [*late, *others] if others else []


def _evenly(facts: RunFacts, even: Sequence[Gap], op: str = "") -> Finding:
    """Return the finding about processes each of which alone would make a step as long, whoever is last."""
    worst = max(even, key=lambda each: each.whole)
    line, where = _in_script(worst)
    everyone = len(even) == len(facts.present)
    gap = gap_over(facts, even, worst)
    one = Subject.of(worst.host, collective=op, source=source_of(line))
    return Finding(
        Severity.WARNING,
        0.8,
        f"{acting([each.host for each in even], 'is', 'are')} equally late: no launch for "
        f"{units.ms(gap.ms)} ms of a {units.ms(gap.step_ms)} ms step "
        f"({gap.share:.0%}{core_clause(gap.share, gap.core)}){where}",
        Subject(collective=op, source=source_of(line)) if everyone else one,
        about=min(each.host.agent for each in even),
        cost=FindingCost(gap.ms, gap.share),
        evidence=(
            Evidence("gap of these", gap.share, "ratio", "steps and windows", worst.host.pulse_at),
            Evidence("processes", len(even), source=SAMPLES, at=worst.host.pulse_at),
        ),
        proof=Proof("stacks", row=worst.host.agent),
        explains=("slower_than_before", "communication_bound"),
        advice="Make that line faster on all of them: mending one alone gains next to nothing.",
    )


def is_by_script(finding: Finding) -> bool:
    """Whether a straggler was found by samples of its main thread, which no figure of a collective shows."""
    return finding.rule == STRAGGLER and not finding.subject.collective


def _severity(facts: RunFacts, share: float | None) -> Severity:
    is_critical = (share or 0.0) >= facts.number(CRITICAL_SHARE)
    return Severity.CRITICAL if is_critical else Severity.WARNING


def _collective_finding(facts: RunFacts, late: Straggler, view: CollectiveView) -> Finding:
    host = facts.cluster.hosts.get(late.agent)
    who, ms = host.label if host else late.agent, late.late_us / 1000
    share = facts.share_of_step(ms)
    of_step = (
        ""
        if share is None or facts.step_ms is None
        else f" of a {units.ms(facts.step_ms)} ms step ({share:.0%})"
    )
    return Finding(
        _severity(facts, share),
        late.share,
        lateness_in_words(who, late.late_us, op_with_axes(view.op, view.axes), of_step),
        _subject(late, view),
        about=late.agent,
        cost=FindingCost(ms_per_step=ms, share_of_step=share),
        evidence=_evidence("wait of the others", ms, late, view),
        proof=Proof("collectives", row=view.op),
    )


def _subject(late: Straggler, view: CollectiveView) -> Subject:
    return Subject(
        late.agent,
        late.process_index,
        late.device_id,
        program=view.program,
        collective=view.op,
        axis=", ".join(view.axes or ()),
    )


def _evidence(name: str, ms: float, late: Straggler, view: CollectiveView) -> tuple[Evidence, ...]:
    return (
        Evidence(name, ms / 1000, "seconds", _WINDOWS),
        Evidence("share of samples in which it came last", late.share, "ratio", _WINDOWS),
        Evidence("samples", view.samples, source=_WINDOWS),
    )


# A device that is later than its siblings, though all of a process are launched together


def _uneven_work(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for the device for which the other devices of its process wait longest."""
    if not any(view.is_enough for view in facts.collectives):
        raise Unmeasured(_why_few(facts) if facts.collectives else NO_COLLECTIVES)
    stragglers = [(view.straggler, view) for view in facts.collectives if view.straggler is not None]
    found = [
        (us, late, view) for late, view in stragglers if (us := _uneven_us(facts, late, view)) is not None
    ]
    if not found:
        return
    us, late, view = max(found, key=lambda each: each[0])
    ms, late_ms = us / 1000, late.late_us / 1000
    of_step = "" if facts.step_ms is None else f" of a {units.ms(facts.step_ms)} ms step"
    yield Finding(
        Severity.WARNING,
        late.share * 0.8,
        f"device {late.device_id} computes {units.ms(ms)} ms{of_step} longer than the other devices of its "
        f"process before {op_with_axes(view.op, view.axes)}",
        _subject(late, view),
        about=str(late.device_id),
        cost=FindingCost(late_ms, facts.share_of_step(late_ms)),  # all wait for it, as the panel has it
        evidence=_evidence("wait of the other devices of its process", ms, late, view),
        proof=Proof("collectives", row=view.op),
        explains=(STRAGGLER,) if facts.stragglers == {late.agent} else (),
    )


def _uneven_us(facts: RunFacts, late: Straggler, view: CollectiveView) -> float | None:
    """Return how long the siblings of a late device wait for it; None if they are about as late as it is."""
    host, waits = facts.cluster.hosts.get(late.agent), view.waits_us
    own = {each.id for each in host.devices if each.id in waits} if host is not None else set()
    siblings = [waits[each] for each in own - {late.device_id}]
    if late.device_id is None or late.device_id not in waits or not siblings:
        return None
    longer = median(siblings) - waits[late.device_id]
    return longer if longer >= facts.number(OF_LATENESS) * late.late_us else None


RULES = (
    Rule(
        name=STRAGGLER,
        title="Straggler",
        threshold="the same process or device comes last in 75 % of the samples of three windows, or its "
        "main thread is in the script for 15 % of each step more than others",
        details=(
            "Later by more than 5 ms (25 ms on CPU), 3 % of the launch and three times the usual spread.",
            (
                "By their main threads at most half of the processes are late; a note from 50 % on "
                "where nothing shows whether devices compute meanwhile."
            ),
        ),
        rationale="In a synchronous step everyone waits for the last: its delay is paid by every device.",
        source="durations of each collective on all devices, from windows of the profiler; samples of the "
        "main threads and times of steps",
        advice="Look at that host: CPU used by others, throttling, slow input. Its stacks [9] show what it "
        "does before the launch.",
        check=_straggler,
        holds_for=0.0,
        numbers=(CRITICAL_SHARE, LATE_MS, LATE_MS_ON_CPU, LATE_SCRIPT_MS),
        makes_event=is_by_script,  # one of a collective has events of its own
    ),
    Rule(
        name="uneven_work",
        title="Uneven work",
        threshold="the other devices of a straggler's process also wait for it, for 70 % of its lateness",
        rationale="Devices of a process are launched together: one that is late has more to compute, or is "
        "slower.",
        source="durations of each collective on all devices, from windows of the profiler",
        advice="Balance what depends on the device: tokens per expert, masked or padded batches, stages of "
        "a pipeline. If its work is equal, look at its clock and temperature.",
        check=_uneven_work,
        holds_for=0.0,
        numbers=(OF_LATENESS,),
    ),
)
