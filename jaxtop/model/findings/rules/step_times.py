"""Steps that take longer than they did before in the same session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts

SLOWER_SHARE = Number("longer", 0.25, "reported from this share of the best time on")
MIN_STEP_MS = Number("least_ms", 1.0, "milliseconds a step below which it is not reported")
_STEPS = "launches of the step"


def _check(facts: RunFacts) -> Iterator[Finding]:
    slowed = []
    is_known = False
    slower = 1 + facts.number(SLOWER_SHARE)
    least_us = 1000 * facts.number(MIN_STEP_MS)
    for view in facts.reporting:
        host = view.current
        best, rhythm = host.best, host.pulse.rhythm
        if best is None or best.best_us is None or rhythm is None or rhythm.mean_us is None:
            continue
        is_known = True
        is_slower = rhythm.mean_us >= slower * best.best_us
        if is_slower and rhythm.mean_us - best.best_us >= least_us:
            slowed.append((rhythm.mean_us - best.best_us, best.best_us, rhythm.mean_us, host))
    if not is_known:
        raise Unmeasured("no half minute of steps to compare with")
    # A step of a run is slower only if it is slower on most of its processes.
    if not slowed or 2 * len(slowed) <= len(facts.reporting):
        return
    longer, best_us, now_us, host = max(slowed, key=lambda each: each[0])
    ms = longer / 1000
    yield Finding(
        Severity.INFO if facts.is_on_cpu else Severity.WARNING,
        0.7,
        f"a step takes {units.ms(now_us / 1000)} ms, {now_us / best_us - 1:.0%} longer than in the best "
        "half minute "
        f"({units.ms(best_us / 1000)} ms)",
        Subject.of(host),
        cost=FindingCost(ms, ms * 1000 / now_us),
        evidence=(
            Evidence("step now", now_us / 1e6, "seconds", _STEPS, host.pulse_at),
            Evidence("step in the best half minute", best_us / 1e6, "seconds", _STEPS),
            Evidence("processes", len(slowed), source=_STEPS, at=host.pulse_at),
        ),
        proof=Proof("plot", row=host.agent),
    )


RULES = (
    Rule(
        name="slower_than_before",
        title="Slower than before",
        threshold="for 20 s, the mean step takes 25 % longer than in the best half minute; a note on CPUs",
        rationale="The same programs took less time, so something else has changed.",
        source="times between the launches of a step, over the session",
        advice="Compare that time with now [v]: clocks, other processes, input, memory, a rewritten batch "
        "size.",
        check=_check,
        holds_for=20.0,
        stays_for=20.0,
        numbers=(SLOWER_SHARE, MIN_STEP_MS),
    ),
)
