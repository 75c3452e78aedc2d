"""Findings about gaps of hosts: which are measured, and the words, cost and evidence that they share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.rule import Unmeasured
from jaxtop.model.wall_time.gaps import MAX_COMPILING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.wall_time.gaps import Gap
    from jaxtop.wire import ActiveLine, InputQueue

# From this part of a gap on, a finding says that the main thread waits for a core.
OF_CORE = 0.1
# The fewest looks at a queue that show how often it is empty.
MIN_QUEUE_LOOKS = 10
# A queue is mostly empty if it is empty in this share of the looks.
EMPTY_QUEUE_SHARE = 0.5
# The kind of a queue through which other processes send.
FROM_PROCESSES = "multiprocessing"
EXPLAINS = ("slower_than_before",)
SOURCE = (
    "launch counters, windows of the profiler, and samples of the main thread, without its waits for a core"
)
_WINDOWS, SAMPLES = "launch counters and profiler windows", "samples of the main thread"


def measured_gaps(facts: RunFacts) -> list[Gap]:
    found = [each for each in facts.gaps if each.uncovered is not None]
    if not found:
        raise Unmeasured("the main threads, or launches of the step, were not measured for long enough")
    return [each for each in found if each.compiling < MAX_COMPILING]


def worst_of(found: Sequence[Gap], activity: int) -> tuple[Gap, ActiveLine]:
    """Return the largest gap with the line that has most samples of an activity."""
    worst = max(found, key=lambda each: (each.share, each.whole))
    line = worst.line(activity)
    assert line is not None
    return worst, line[0]


class GapInStep(NamedTuple):
    """A gap as a share of a step, with the waits for a core; the share of these, and the time of the step."""

    share: float
    core: float
    step_ms: float

    @property
    def ms(self) -> float:
        return self.share * self.step_ms


def gap_over(facts: RunFacts, found: Sequence[Gap], worst: Gap, share: float | None = None) -> GapInStep:
    """Return a gap as the panel has it.

    The panel has the mean over all processes. Where only some have the gap, it is that of the worst, or the
    given share of it.
    """
    shown = facts.run_parts
    if shown is None or len(found) < len(facts.present):
        return GapInStep(worst.whole if share is None else share, worst.core_share, worst.step_ms)
    return GapInStep(shown.parts.host_gap, shown.parts.delayed, facts.step_ms or worst.step_ms)


def source_of(line: ActiveLine | None) -> str:
    """Return a line as file:line; empty if it is unknown."""
    return "" if line is None else f"{line.place.file}:{line.place.line}"


def core_clause(share: float, core: float) -> str:
    """Return which part of a gap waits for a core, as the end of a clause; empty if it is small."""
    part = core / share if share else 0.0
    return f", of which {part:.0%} waits for a core" if part >= OF_CORE else ""


def _seen_queue(gap: Gap) -> InputQueue | None:
    queue = gap.host.activity.input_queue
    return queue if queue is not None and queue.looks >= MIN_QUEUE_LOOKS else None


def is_from_processes(gap: Gap) -> bool:
    """Return whether the input comes through a queue from other processes, which leave it mostly empty."""
    queue = _seen_queue(gap)
    return queue is not None and queue.kind == FROM_PROCESSES and queue.empty_share >= EMPTY_QUEUE_SHARE


def queue_clause(gap: Gap) -> str:
    """Return what the input queue says about the loader, as the end of a sentence; empty if nothing."""
    queue = _seen_queue(gap)
    if queue is None:
        return ""
    empty, full = queue.empty_share, queue.full_share or 0.0
    if empty >= EMPTY_QUEUE_SHARE:
        return f"; its queue empty in {empty:.0%} of looks"
    return f"; its queue full in {full:.0%} of looks" if full >= EMPTY_QUEUE_SHARE else ""


def _queue_evidence(gap: Gap) -> tuple[Evidence, ...]:
    queue, at = _seen_queue(gap), gap.host.pulse_at
    if queue is None:
        return ()
    return (
        Evidence("input queue empty", queue.empty_share, "ratio", SAMPLES, at),
        Evidence("input queue full", queue.full_share, "ratio", SAMPLES, at),
    )


def place_of(line: ActiveLine) -> str:
    return f"{source_of(line)} {line.place.function}"


def as_note(facts: RunFacts, finding: Finding) -> Finding:
    """Return a finding as a note without a cost where the run may idle, and say why it may."""
    if not facts.may_idle:
        return finding
    text = f"{finding.text}; {facts.may_idle}"
    return replace(finding, severity=Severity.INFO, cost=FindingCost(), text=text)


def finding_of(
    facts: RunFacts,
    gaps: Sequence[Gap],
    worst: Gap,
    line: ActiveLine | None,
    *,
    severity: Severity,
    text: str,
    cost: FindingCost | None = None,
    explains: tuple[str, ...] = EXPLAINS,
) -> Finding:
    """Return the finding about these gaps; its figures are those of the worst of them."""
    host, at = worst.host, worst.host.pulse_at
    # A process that is late because of its script is not late for another reason, and the others wait for it.
    is_cause = facts.stragglers <= {each.host.agent for each in gaps}
    has_waiting = is_cause and len(gaps) < len(facts.present)
    parts = facts.parts.get(host.agent)
    gap, core = (None, None) if worst.uncovered is None else (worst.whole, worst.core_share)
    return Finding(
        severity,
        0.9 if parts is not None else 0.7,
        text,
        Subject.of(host, source=source_of(line)),
        cost=cost or FindingCost(worst.ms, worst.share),
        evidence=(
            Evidence("host gap", gap, "ratio", _WINDOWS, parts.at if parts else at),
            Evidence("host gap that waits for a core", core, "ratio", SAMPLES, at),
            Evidence("median step", worst.p50_s, "seconds", _WINDOWS, at),
            Evidence("a step, pauses included", worst.step_ms / 1000, "seconds", _WINDOWS, at),
            Evidence("main thread in the script", worst.script, "ratio", SAMPLES, at),
            Evidence("main thread in launches", worst.launch, "ratio", SAMPLES, at),
            Evidence("main thread in waits", worst.wait, "ratio", SAMPLES, at),
            *_queue_evidence(worst),
            Evidence("processes", len(gaps), source=SAMPLES, at=at),
        ),
        proof=Proof("stacks", row=host.agent),
        explains=(
            *explains,
            *(("straggler",) if is_cause else ()),
            *(("communication_bound",) if has_waiting else ()),
        ),
    )
