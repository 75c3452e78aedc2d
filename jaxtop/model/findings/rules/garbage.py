"""Garbage collections of Python that hold up the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import units
from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.findings.trends import makes_steps
from jaxtop.model.steps.script import collecting
from jaxtop.model.steps.views import pace_of
from jaxtop.model.tuning import Number
from jaxtop.model.wall_time.gaps import not_hidden
from jaxtop.model.wall_time.parts import mean_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host

NOTE_SHARE = Number("share", 0.03, "reported from this share of the time on")
WARNING_SHARE = Number("warning_share", 0.05, "a warning from this share of the time on that devices lose")
# If collections are this part of a gap, or of communication, they are its cause.
OF_GAP = 0.5


class _CollectingHost(NamedTuple):
    """A host, the share of its time in collections, and the share that costs: none if devices compute on."""

    host: Host
    share: float
    lost: float


def _check(facts: RunFacts) -> Iterator[Finding]:
    # Imports make garbage: that is time of the start.
    stepping = [view.current for view in facts.reporting if makes_steps(view)]
    if not stepping:
        raise Unmeasured("no step was found yet, and imports make garbage while a run starts")
    measured = [(host, share) for host in stepping if (share := collecting(host)) is not None]
    if not measured:
        raise Unmeasured("collections were not timed for long enough")
    found = []
    mean = mean_of(facts.parts.values())
    for host, share in measured:
        if share >= facts.number(NOTE_SHARE):
            parts = facts.parts.get(host.agent) or mean
            found.append(_CollectingHost(host, share, min(share, not_hidden(host, parts))))
    if found:
        yield _finding(facts, found)


def _finding(facts: RunFacts, found: list[_CollectingHost]) -> Finding:
    worst = max(found, key=lambda each: (each.lost, each.share))
    host, activity = worst.host, worst.host.activity
    pace = pace_of(host)
    ms = worst.lost * 1000 / pace if pace else None
    who = facts.named([each.host for each in found])
    gap = next((each for each in facts.gaps if each.host.agent == host.agent), None)
    is_cause = gap is not None and worst.share >= OF_GAP * gap.share
    mean = mean_of(facts.parts.values())
    # Others wait in a collective for the host that collects: without marks of waits, that is communication.
    delays = mean is not None and worst.lost >= OF_GAP * mean.communication
    return Finding(
        Severity.WARNING if worst.lost >= facts.number(WARNING_SHARE) else Severity.INFO,
        0.9,
        f"Python collects garbage for {worst.share:.0%} of the time on {who}, "
        f"up to {units.ms(activity.gc_longest_us / 1000)} ms at once"
        + (": the others wait each time" if len(found) < len(facts.present) else ""),
        Subject.of(host),
        cost=FindingCost(ms, worst.lost),
        evidence=(
            Evidence("time in collections", worst.share, "ratio", "gc.callbacks", host.pulse_at),
            Evidence(
                "longest collection", activity.gc_longest_us / 1e6, "seconds", "gc.callbacks", host.pulse_at
            ),
            Evidence("collections", activity.gc_runs, source="gc.callbacks", at=host.pulse_at),
        ),
        proof=Proof("hosts", row=host.agent, column="gc"),
        explains=(
            *_EXPLAINS,
            *(("input_bound", "pauses", "straggler") if is_cause else ()),
            *(("communication_bound",) if delays else ()),
        ),
    )


_EXPLAINS = ("slower_than_before",)

RULES = (
    Rule(
        name="gc_pauses",
        title="Garbage collection",
        threshold="garbage collections take 3 % of the time; a warning if devices lose 5 %",
        rationale="A collection stops the script, on each host at another time, and all others wait for it.",
        source="the callbacks of Python's garbage collector, with the CPU time of the thread",
        advice="Call gc.freeze() after setting up and gc.disable(); collect on all hosts in the same step. "
        "Remove calls of gc.collect() from the loop.",
        check=_check,
        holds_for=6.0,
        explains=_EXPLAINS,
        numbers=(NOTE_SHARE, WARNING_SHARE),
    ),
)
