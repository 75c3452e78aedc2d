"""Devices that are idle in each step because of the script: slow input, many launches, reads of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.finding import Cost, Finding, Severity
from jaxtop.model.findings.gap_findings import (
    EXPLAINS,
    SOURCE,
    acting,
    finding_of,
    measured_gaps,
    place_of,
    worst_of,
)
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.gaps import are_apart, measured_busy
from jaxtop.model.rates import rates
from jaxtop.model.tuning import Number
from jaxtop.wire import LAUNCH, SCRIPT, WAIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.gaps import Gap

WARNING_SHARE = 0.2
INPUT_SHARE = Number("share", WARNING_SHARE, "reported from this share of a step on")
INPUT_CRITICAL = Number("critical_share", 0.5, "critical from this share of a step on")
# This part of a gap must be confirmed by samples of the main thread in the script.
OF_GAP = 0.6
# With this many launches a step or a second, each shorter than SHORT_MS, Python is what takes time. LAUNCHING
# is the share of the samples in launches.
MANY_LAUNCHES = Number("launches", 50, "reported from so many launches a step on")
IDLE_SHARE = Number("share", WARNING_SHARE, "reported if no program runs for this share of the time")
MANY_A_SECOND, SHORT_MS, LAUNCHING = 1000, 0.5, 0.3
READ_SHARE = Number("share", 0.1, "reported from this share of a step on")
READ_WARNING = Number("warning_share", WARNING_SHARE, "a warning from this share of a step on")
READ_WAITS = 0.15
_OF_LAUNCHES = ("blocking_reads", *EXPLAINS)


def _is_of_script(gap: Gap) -> bool:
    return gap.script >= OF_GAP * gap.share and gap.line(SCRIPT) is not None


def _input_bound(facts: RunFacts) -> Iterator[Finding]:
    least = facts.number(INPUT_SHARE)
    found = [
        each
        for each in measured_gaps(facts)
        if each.is_in_each_step and each.share >= least and _is_of_script(each)
    ]
    # A process that launches thousands of programs a step is in the script between them. One that waits for
    # each result prepares the next step only afterwards.
    found = [each for each in found if not _launches_of(each) and not _is_read(each)]
    # Few processes for which all others wait are stragglers.
    if 2 * len(found) <= len(facts.present) and not are_apart(facts.gaps):
        return
    if found:
        worst, line = worst_of(found, SCRIPT)
        text = (
            f"{acting(facts, found, 'launches', 'launch')} nothing for {worst.ms:.0f} of "
            f"{worst.step_ms:.0f} ms a step "
            f"({worst.share:.0%}): {place_of(line)}"
        )
        is_critical = worst.share >= facts.number(INPUT_CRITICAL)
        severity = Severity.CRITICAL if is_critical else Severity.WARNING
        yield finding_of(facts, found, worst, line, severity=severity, text=text)


def _launch_bound(facts: RunFacts) -> Iterator[Finding]:
    if not facts.gaps:
        raise Unmeasured("the main threads, or steps, were not measured for long enough")
    least, many = facts.number(IDLE_SHARE), facts.number(MANY_LAUNCHES)
    found = [each for each in facts.gaps if _lost_to_launches(each) >= least and _launches_of(each, many)]
    if found:
        worst = max(found, key=_lost_to_launches)
        lost = _lost_to_launches(worst)
        top = worst.line(LAUNCH)
        a_second = _launches_of(worst, many) or 0.0
        a_step = a_second * worst.step_ms / 1000
        # Where each short launch is a step of its own, that may be all that there is to compute.
        severity = Severity.WARNING if a_step >= many else Severity.INFO
        often = f"{a_step:,.0f} programs a step" if a_step >= many else f"{a_second:,.0f} a second"
        where = "devices idle" if worst.uncovered is not None else "Python launches for"
        text = f"{acting(facts, found, 'launches', 'launch')} {often}, and {where} {lost:.0%} of the time"
        yield finding_of(
            facts,
            found,
            worst,
            None if top is None else top[0],
            severity=severity,
            text=text,
            cost=Cost(lost * worst.step_ms, lost),
            explains=_OF_LAUNCHES,
        )


def _lost_to_launches(gap: Gap) -> float:
    """Return the share of the time that launches cost: what the programs in windows leave over of it."""
    return min(gap.launch, 1 - measured_busy(gap.host)) if gap.uncovered is None else gap.uncovered


def _launches_of(gap: Gap, many: float = MANY_LAUNCHES.default) -> float | None:
    """Return the launches a second if they are many and Python spends its time on them; else None."""
    if gap.launch < max(LAUNCHING, gap.wait):
        return None
    launches = sum(rates(gap.host).of_function.values())
    if not launches or (launches < MANY_A_SECOND and launches * gap.step_ms < many * 1000):
        return None
    # Without windows, a launch is at most as long as the main thread takes for it.
    busy = gap.launch if gap.uncovered is None else 1 - gap.uncovered
    return launches if busy * 1000 / launches <= SHORT_MS else None


def _blocking_reads(facts: RunFacts) -> Iterator[Finding]:
    least = facts.number(READ_SHARE)
    found = [each for each in measured_gaps(facts) if _is_read(each, least) and not _launches_of(each)]
    if found:
        worst, read = worst_of(found, WAIT)
        text = (
            f"{acting(facts, found, 'waits', 'wait')} for a result in each step at {place_of(read)}; "
            "devices idle "
            f"{worst.ms:.1f} of {worst.step_ms:.0f} ms ({worst.share:.0%})"
        )
        is_much = worst.share >= facts.number(READ_WARNING)
        severity = Severity.WARNING if is_much else Severity.INFO
        yield finding_of(facts, found, worst, read, severity=severity, text=text)


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
        "script",
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
        threshold="50 launches a step of less than 0.5 ms, and 20 % of the time no program runs or, if "
        "that is not known, Python launches; a note for 1,000 a second, if each is a step",
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
        "devices are idle for 10 % of it; a warning from 20 % on",
        rationale="A script that waits for a result launches the next step only afterwards.",
        source=SOURCE,
        advice="Read results some steps later, or only every 50 steps, so that JAX can launch ahead.",
        check=_blocking_reads,
        explains=EXPLAINS,
        numbers=(READ_SHARE, READ_WARNING),
    ),
)
