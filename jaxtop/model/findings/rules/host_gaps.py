"""Devices that are idle in each step because of the script: slow input, many launches, reads of results."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import units
from jaxtop.model.finding import Evidence, Finding, FindingCost, Severity
from jaxtop.model.findings.gap_findings import (
    EXPLAINS,
    SOURCE,
    as_note,
    core_clause,
    finding_of,
    gap_over,
    is_from_processes,
    measured_gaps,
    place_of,
    queue_clause,
    worst_of,
)
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.tuning import Number
from jaxtop.model.wall_time.gaps import MANY_LAUNCHES, launches_of, lost_to_launches
from jaxtop.model.wall_time.late_scripts import are_apart
from jaxtop.model.wall_time.time_spent import input_share
from jaxtop.wire import LAUNCH, SCRIPT, WAIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.wall_time.gaps import Gap

WARNING_SHARE = 0.2
INPUT_SHARE = Number("share", WARNING_SHARE, "reported from this share of a step on")
INPUT_CRITICAL = Number("critical_share", 0.5, "critical from this share of a step on")
# This part of a gap must be confirmed by samples of the main thread in the script.
OF_GAP = 0.6
IDLE_SHARE = Number("share", WARNING_SHARE, "reported if no program runs for this share of the time")
READ_SHARE = Number("share", 0.1, "reported from this share of a step on")
READ_WARNING = Number("warning_share", WARNING_SHARE, "a warning from this share of a step on")
READ_WAITS = 0.15
_OF_LAUNCHES = ("blocking_reads", *EXPLAINS)
# What to do where the input comes from other processes of the family.
_OTHERS = (
    "If its input comes from them: start more of them, make them faster, or let each send more at a time."
)
_TURNS = "If its input comes from them, they take turns: let them work ahead, on older parameters."


def _is_of_script(gap: Gap) -> bool:
    in_script = gap.script + min(gap.delayed, gap.core_share)
    return in_script >= OF_GAP * gap.whole and gap.line(SCRIPT) is not None


def _input_bound(facts: RunFacts) -> Iterator[Finding]:
    least = facts.number(INPUT_SHARE)
    found = [
        each
        for each in measured_gaps(facts)
        if each.is_in_each_step and each.whole >= least and _is_of_script(each)
    ]
    # A process that launches thousands of programs a step is in the script between them. One that waits for
    # each result prepares the next step only afterwards.
    found = [each for each in found if not launches_of(each) and not _is_read(each)]
    if _are_for_others(facts, found):
        return
    if found:
        worst, line = worst_of(found, SCRIPT)
        gap = gap_over(facts, found, worst)
        text = (
            f"{facts.acting(found, 'launches', 'launch')} nothing for {units.ms(gap.ms)} of "
            f"{units.ms(gap.step_ms)} ms a step "
            f"({gap.share:.0%}{core_clause(gap.share, gap.core)}): {place_of(line)}"
        )
        severity = Severity.CRITICAL if worst.share >= facts.number(INPUT_CRITICAL) else Severity.WARNING
        if worst.share < least:  # more of it is the machine's fault than the script's
            severity = Severity.INFO
        others = _busiest(facts) if is_from_processes(worst) and not facts.may_idle else None
        if others is None:
            text += queue_clause(worst)
        cost = FindingCost(gap.ms, gap.share)
        finding = finding_of(facts, found, worst, line, severity=severity, text=text, cost=cost)
        if others is not None:
            finding = _with_others(finding, others, least, worst.host.pulse_at)
        yield as_note(facts, finding)


class _OtherGroup(NamedTuple):
    """Another group of the run's family, and for which share of the time its processes wait for input."""

    group: str
    waits: float


def _with_others(finding: Finding, others: _OtherGroup, much: float, at: float | None) -> Finding:
    """Return a finding with what the processes do that send the input, and what to do about it."""
    words = f"{others.group} wait for input"
    return replace(
        finding,
        text=f"{finding.text}; {words} {others.waits:.0%} of the time",
        advice=_TURNS if others.waits >= much else _OTHERS,
        evidence=(*finding.evidence, Evidence(words, others.waits, "ratio", "ledgers", at)),
    )


def _busiest(facts: RunFacts) -> _OtherGroup | None:
    """Return the other group of the family that waits least for its own input; None if none is known."""
    found = []
    for group in facts.other_groups:
        hosts = [view.host for run in group.runs for view in run.hosts if not view.state.has_exited]
        shares = [share for host in hosts if (share := input_share(host)) is not None]
        if shares:
            found.append(_OtherGroup(str(group), fmean(shares)))
    return min(found, key=lambda each: each.waits, default=None)


def _are_for_others(facts: RunFacts, found: list[Gap]) -> bool:
    """Return whether these are few processes for which all others wait: they are stragglers."""
    return 2 * len(found) <= len(facts.present) and not are_apart(facts.gaps)


def _launch_bound(facts: RunFacts) -> Iterator[Finding]:
    if not facts.gaps:
        raise Unmeasured("the main threads, or steps, were not measured for long enough")
    least, many = facts.number(IDLE_SHARE), facts.number(MANY_LAUNCHES)
    found = [each for each in facts.gaps if lost_to_launches(each) >= least and launches_of(each, many)]
    if found:
        worst = max(found, key=lost_to_launches)
        gap = gap_over(facts, found, worst, lost_to_launches(worst))
        top = worst.line(LAUNCH)
        a_second, a_step = launches_of(worst, many) or (0.0, 0.0)
        # Where each short launch is a step of its own, that may be all that there is to compute.
        severity = Severity.WARNING if a_step >= many else Severity.INFO
        often = f"{a_step:,.0f} programs a step" if a_step >= many else f"{a_second:,.0f} a second"
        where = "devices idle" if worst.uncovered is not None else "Python launches for"
        text = f"{facts.acting(found, 'launches', 'launch')} {often}, and {where} {gap.share:.0%} of the time"
        yield finding_of(
            facts,
            found,
            worst,
            None if top is None else top[0],
            severity=severity,
            text=text,
            cost=FindingCost(gap.ms, gap.share),
            explains=_OF_LAUNCHES,
        )


def _blocking_reads(facts: RunFacts) -> Iterator[Finding]:
    least = facts.number(READ_SHARE)
    found = [each for each in measured_gaps(facts) if _is_read(each, least) and not launches_of(each)]
    if _are_for_others(facts, found):
        return
    if found:
        worst, read = worst_of(found, WAIT)
        gap = gap_over(facts, found, worst)
        text = (
            f"{facts.acting(found, 'waits', 'wait')} for a result in each step at {place_of(read)}; "
            f"devices idle {units.ms(gap.ms)} of {units.ms(gap.step_ms)} ms "
            f"({gap.share:.0%}{core_clause(gap.share, gap.core)})"
        )
        is_much = worst.share >= facts.number(READ_WARNING)
        severity = Severity.WARNING if is_much else Severity.INFO
        cost = FindingCost(gap.ms, gap.share)
        finding = finding_of(facts, found, worst, read, severity=severity, text=text, cost=cost)
        yield as_note(facts, finding)


def _is_read(gap: Gap, least: float = READ_SHARE.default) -> bool:
    """Return whether a script waits for results longer than it works, and devices wait for it meanwhile."""
    line = gap.line(WAIT)
    is_waiting = line is not None and line[1] >= max(READ_WAITS, gap.script)
    return is_waiting and gap.is_in_each_step and gap.share >= least


RULES = (
    Rule(
        name="input_bound",
        title="Input bound",
        threshold="in each step nothing is launched for 20 % of the time, and the main thread is in the "
        "script; a note if less is left without its waits for a core, in servers (by role), and in what "
        "the main run of a family has started",
        rationale="While the script reads or prepares data, the devices are idle.",
        source=SOURCE,
        advice="Prepare the next batch on another thread or process while the devices compute (prefetch), "
        "or make that line faster.",
        check=_input_bound,
        holds_for=2.0,
        explains=EXPLAINS,
        numbers=(INPUT_SHARE, INPUT_CRITICAL),
    ),
    Rule(
        name="launch_bound",
        title="Launch bound",
        threshold="launches take less than 0.5 ms each, and for 20 % of the time no program runs or, if that "
        "is unknown, Python launches; a warning from 50 launches a step on; a note from 1,000 a second on, "
        "if a step has fewer",
        rationale="Each launch takes Python some microseconds, which is more than such a program takes.",
        source=SOURCE,
        advice="Put the whole step, or several steps with jax.lax.scan, into one jitted function.",
        check=_launch_bound,
        explains=_OF_LAUNCHES,
        numbers=(IDLE_SHARE, MANY_LAUNCHES),
    ),
    Rule(
        name="blocking_reads",
        title="Blocking reads",
        threshold="the main thread waits for a result in each step, for longer than it works, and the "
        "devices are idle for 10 % of it; a warning from 20 % on, but not in servers (by role), nor in what "
        "the main run of a family has started",
        rationale="A script that waits for a result launches the next step only afterwards.",
        source=SOURCE,
        advice="Read results some steps later, or only every 50 steps, so that JAX can launch ahead.",
        check=_blocking_reads,
        explains=EXPLAINS,
        numbers=(READ_SHARE, READ_WARNING),
    ),
)
