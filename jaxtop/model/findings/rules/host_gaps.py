"""Devices that are idle because of the script: slow input, many launches, reads of results, pauses."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from jaxtop.model.finding import Cost, Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.gaps import are_apart, confirmed, measured_busy
from jaxtop.model.hosts import named
from jaxtop.model.rates import rates
from jaxtop.model.tuning import Number
from jaxtop.wire import LAUNCH, SCRIPT, WAIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.gaps import Gap
    from jaxtop.wire import ActiveLine

WARNING_SHARE = 0.2
INPUT_SHARE = Number("share", WARNING_SHARE, "reported from this share of a step on")
INPUT_CRITICAL = Number("critical_share", 0.5, "critical from this share of a step on")
# This part of a gap must be confirmed by samples of the main thread in the script.
OF_GAP = 0.6
# While more than this share of the samples compiles, the run is starting.
MOST_COMPILING = 0.1
# With this many launches a step or a second, each shorter than SHORT_MS, Python is what takes time. LAUNCHING
# is the share of the samples in launches.
MANY_LAUNCHES = Number("launches", 50, "reported from so many launches a step on")
IDLE_SHARE = Number("share", WARNING_SHARE, "reported if no program runs for this share of the time")
MANY_A_SECOND, SHORT_MS, LAUNCHING = 1000, 0.5, 0.3
READ_SHARE = Number("share", 0.1, "reported from this share of a step on")
READ_WARNING = Number("warning_share", WARNING_SHARE, "a warning from this share of a step on")
READ_WAITS = 0.15
PAUSE_SHARE = Number("share", 0.1, "reported from this share of the time on")
LONG_PAUSE_SHARE = Number("warning_share", 0.25, "a warning from this share of the time on")
LINE_SHARE = 0.05
# So many pauses within a minute repeat, or two within this time. A single one is something that is rare.
REPEATED, SOON_MS = 3, 20_000
_SAVING = re.compile(r"sav|checkpoint|ckpt|orbax|fsync|dump|pickle|serializ", re.IGNORECASE)
_EXPLAINS = ("slower_than_before",)
_OF_LAUNCHES = ("blocking_reads", *_EXPLAINS)
_WINDOWS, _SAMPLES = "launch counters and profiler windows", "samples of the main thread"


def _gaps(facts: RunFacts) -> list[Gap]:
    found = [each for each in facts.gaps if each.uncovered is not None]
    if not found:
        raise Unmeasured("the main threads, or launches of the step, were not measured for long enough")
    return [each for each in found if each.compiling < MOST_COMPILING]


def _is_of_script(gap: Gap) -> bool:
    return gap.script >= OF_GAP * gap.share and gap.line(SCRIPT) is not None


def _input_bound(facts: RunFacts) -> Iterator[Finding]:
    least = facts.number("input_bound", INPUT_SHARE)
    found = [
        each for each in _gaps(facts) if each.is_in_each_step and each.share >= least and _is_of_script(each)
    ]
    # A process that launches thousands of programs a step is in the script between them. One that waits for
    # each result prepares the next step only afterwards.
    found = [each for each in found if not _launches_of(each) and not _is_read(each)]
    # Few processes for which all others wait are stragglers.
    if 2 * len(found) <= len(facts.present) and not are_apart(facts.gaps):
        return
    if found:
        worst, (line, _) = _worst(found, SCRIPT)
        text = (
            f"{_who(facts, found)} launch{_s(found)} nothing for {worst.ms:.0f} of "
            f"{worst.step_ms:.0f} ms a step "
            f"({worst.share:.0%}): {_at(line)}"
        )
        is_critical = worst.share >= facts.number("input_bound", INPUT_CRITICAL)
        severity = Severity.CRITICAL if is_critical else Severity.WARNING
        yield _finding(facts, found, line, rule="input_bound", severity=severity, text=text)


def _launch_bound(facts: RunFacts) -> Iterator[Finding]:
    if not facts.gaps:
        raise Unmeasured("the main threads, or steps, were not measured for long enough")
    least, many = facts.number("launch_bound", IDLE_SHARE), facts.number("launch_bound", MANY_LAUNCHES)
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
        text = f"{_who(facts, found)} launch{_s(found)} {often}, and {where} {lost:.0%} of the time"
        yield _finding(
            facts,
            found,
            None if top is None else top[0],
            rule="launch_bound",
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
    if launches < MANY_A_SECOND and launches * gap.step_ms < many * 1000:
        return None
    # Without windows, a launch is at most as long as the main thread takes for it.
    busy = gap.launch if gap.uncovered is None else 1 - gap.uncovered
    return launches if busy * 1000 / launches <= SHORT_MS else None


def _blocking_reads(facts: RunFacts) -> Iterator[Finding]:
    least = facts.number("blocking_reads", READ_SHARE)
    found = [each for each in _gaps(facts) if _is_read(each, least) and not _launches_of(each)]
    if found:
        worst, (read, _) = _worst(found, WAIT)
        text = (
            f"{_who(facts, found)} wait{_s(found, 's')} for a result in each step at {_at(read)}; "
            "devices idle "
            f"{worst.ms:.1f} of {worst.step_ms:.0f} ms ({worst.share:.0%})"
        )
        is_much = worst.share >= facts.number("blocking_reads", READ_WARNING)
        severity = Severity.WARNING if is_much else Severity.INFO
        yield _finding(facts, found, read, rule="blocking_reads", severity=severity, text=text)


def _is_read(gap: Gap, least: float = READ_SHARE.default) -> bool:
    """Return whether a script waits for results longer than it works, and devices wait for it meanwhile."""
    line = gap.line(WAIT)
    is_waiting = line is not None and line[1] >= max(READ_WAITS, gap.script)
    return is_waiting and gap.is_in_each_step and gap.share >= least


def _pausing(facts: RunFacts, *, saves: bool) -> list[Gap]:
    """Return the gaps of hosts that pause repeatedly at a line, with the share of the time in pauses."""
    found = []
    least = facts.number("checkpoint_pauses" if saves else "pauses", PAUSE_SHARE)
    for each in _gaps(facts):
        line, rhythm = each.line(SCRIPT), each.host.pulse.rhythm
        if line is None or line[1] < LINE_SHARE or _saves(line[0]) is not saves or rhythm is None:
            continue
        is_repeated = rhythm.pauses >= REPEATED or (rhythm.pauses > 1 and rhythm.pauses_ms <= SOON_MS)
        share = confirmed(rhythm.lost_us / 1000 / each.step_ms, each.script + each.delayed) - each.delayed
        if is_repeated and share >= least:
            found.append(replace(each, share=share))
    return found


def _saves(line: ActiveLine) -> bool:
    return _SAVING.search(line.place.function) is not None or _SAVING.search(line.place.file) is not None


def _pauses(facts: RunFacts) -> Iterator[Finding]:
    found = _pausing(facts, saves=False)
    if found:
        worst, (line, _) = _worst(found, SCRIPT)
        text = (
            f"{_who(facts, found)} pause{_s(found, 's')} between some steps, {worst.share:.0%} of the time: "
            f"{_at(line)}"
        )
        yield _finding(facts, found, line, rule="pauses", severity=Severity.WARNING, text=text)


def _checkpoint_pauses(facts: RunFacts) -> Iterator[Finding]:
    found = _pausing(facts, saves=True)
    if found:
        worst, (line, _) = _worst(found, SCRIPT)
        text = (
            f"{_who(facts, found)} save{_s(found, 's')} state for {worst.share:.0%} of the time: {_at(line)}"
        )
        is_much = worst.share >= facts.number("checkpoint_pauses", LONG_PAUSE_SHARE)
        severity = Severity.WARNING if is_much else Severity.INFO
        yield _finding(facts, found, line, rule="checkpoint_pauses", severity=severity, text=text)


def _worst(found: Sequence[Gap], activity: int) -> tuple[Gap, tuple[ActiveLine, float]]:
    worst = max(found, key=lambda each: each.share)
    line = worst.line(activity)
    assert line is not None
    return worst, line


def _at(line: ActiveLine) -> str:
    return f"{line.place.file}:{line.place.line} {line.place.function}"


def _who(facts: RunFacts, found: Sequence[Gap]) -> str:
    """Return the hosts as a subject of a sentence."""
    if len(found) == 1:
        return "the process" if len(facts.present) == 1 else named([found[0].host])
    return "all hosts" if len(found) == len(facts.present) else named([each.host for each in found])


def _s(found: Sequence[Gap], ending: str = "es") -> str:
    return ending if len(found) == 1 else ""


def _finding(
    facts: RunFacts,
    found: Sequence[Gap],
    line: ActiveLine | None,
    *,
    rule: str,
    severity: Severity,
    text: str,
    cost: Cost | None = None,
    explains: tuple[str, ...] = _EXPLAINS,
) -> Finding:
    worst = max(found, key=lambda each: each.share)
    agents, host = {each.host.agent for each in found}, worst.host
    # A process that is late because of its script is not late for another reason, and the others wait for it.
    is_cause = facts.late <= agents
    has_waiting = is_cause and len(found) < len(facts.present)
    measured_at = host.pulse_at
    parts = facts.parts.get(host.agent)
    return Finding(
        rule,
        severity,
        0.9 if parts is not None else 0.7,
        facts.run.id,
        text,
        Subject(
            agent=host.agent,
            process_index=host.process_index,
            source=f"{line.place.file}:{line.place.line}" if line is not None else "",
        ),
        cost=cost or Cost(worst.ms, worst.share),
        evidence=(
            Evidence("host gap", worst.share, "ratio", _WINDOWS, parts.at if parts else measured_at),
            Evidence("main thread in the script", worst.script, "ratio", _SAMPLES, measured_at),
            Evidence("main thread in launches", worst.launch, "ratio", _SAMPLES, measured_at),
            Evidence("main thread in waits", worst.wait, "ratio", _SAMPLES, measured_at),
            Evidence("processes", len(found), source=_SAMPLES, at=measured_at),
        ),
        proof=Proof("stacks", row=host.agent),
        explains=(
            *explains,
            *(("straggler",) if is_cause else ()),
            *(("communication_bound",) if has_waiting else ()),
        ),
    )


_SOURCE = (
    "launch counters, windows of the profiler, and samples of the main thread, without its waits for a core"
)

RULES = (
    Rule(
        name="input_bound",
        title="Input bound",
        threshold="in each step nothing is launched for 20 % of the time, and the main thread is in the "
        "script",
        rationale="While the script reads or prepares data, the devices are idle.",
        source=_SOURCE,
        advice="Prepare the next batch on another thread or process while the devices compute (prefetch), "
        "or make that line faster.",
        check=_input_bound,
        holds_for=2.0,
        explains=_EXPLAINS,
        numbers=(INPUT_SHARE, INPUT_CRITICAL),
    ),
    Rule(
        name="launch_bound",
        title="Launch bound",
        threshold="50 launches a step of less than 0.5 ms, and 20 % of the time no program runs or, if "
        "that is not known, Python launches; a note for 1,000 a second, if each is a step",
        rationale="Each launch takes Python some microseconds, which is more than such a program takes.",
        source=_SOURCE,
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
        source=_SOURCE,
        advice="Read results some steps later, or only every 50 steps, so that JAX can launch ahead.",
        check=_blocking_reads,
        explains=_EXPLAINS,
        numbers=(READ_SHARE, READ_WARNING),
    ),
    Rule(
        name="pauses",
        title="Pauses",
        threshold="10 % of the time is spent in the script in three pauses between steps within a minute, "
        "or two within 20 s; a pause is three times as long as a step, and 250 ms longer",
        rationale="The median step looks well, yet the run is slower: the time is lost between steps.",
        source=_SOURCE,
        advice="Look at that line: a buffer that runs empty, a validation in Python, a log that is flushed.",
        check=_pauses,
        holds_for=2.0,
        stays_for=20.0,
        explains=_EXPLAINS,
        numbers=(PAUSE_SHARE,),
    ),
    Rule(
        name="checkpoint_pauses",
        title="Checkpoint pauses",
        threshold="as for pauses, at a line that saves; a warning from 25 % on",
        rationale="While the script saves its state, the devices are idle.",
        source=_SOURCE,
        advice="Save asynchronously (orbax AsyncCheckpointer), less often, or to a faster disk.",
        check=_checkpoint_pauses,
        holds_for=2.0,
        stays_for=30.0,
        explains=_EXPLAINS,
        numbers=(PAUSE_SHARE, LONG_PAUSE_SHARE),
    ),
)
