"""Scalars of a script other than its losses: not finite, risen far, or parameters that do not change."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.findings.rules.losses import reporting_hosts, rise_finding
from jaxtop.model.steps.scalars import ProcessScalar, first_bad, measure, scalars_on
from jaxtop.model.tuning import Number
from jaxtop.wire import is_loss, is_norm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.liveness import HostView

STEPS = Number("steps", 200, "unchanged for so many steps, and in as many reports")
_NO_NORMS = "the script reports no norms: agent.step(i, params=agent.norms(params))"
_SOURCE = "agent.step(i, name=…), files of TensorBoard and W&B, calls of MLflow and Trackio"


def _not_finite(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding about the first scalar that stopped being finite, of the most severe ones."""
    bad = [each for each in _reported(facts) if each.scalar.bad and not _is_shown_loss(each)]
    if not bad:
        if not _names(facts):
            raise Unmeasured("the script reports no values: agent.step(i, name=…)")
        if any(map(_is_bad_now, facts.reporting)):
            raise Unmeasured("a value is not finite, and since which step has not arrived yet")
        return
    worst = max(map(_severity, bad), key=lambda each: each.rank)
    first = first_bad(each for each in bad if _severity(each) is worst)
    assert first is not None
    scalar, names = first.scalar, {each.scalar.name for each in bad}
    others = f" ({len(names) - 1} more are not)" if len(names) > 1 else ""
    if scalar.nonfinite:
        text = f"{first.name} has {scalar.nonfinite:,.0f} values that are not finite, {first.since}{others}"
    else:
        text = f"{first.name} is {first.what} {first.since}{others}"
    yield Finding(
        worst,
        0.9,
        text,
        Subject(agent=first.host.agent),
        about="not finite",
        evidence=(
            Evidence(scalar.name, first.what, source="script", at=first.host.pulse_at),
            Evidence("first step that was not finite", scalar.bad_step, source="script"),
            Evidence("last finite value", measure(scalar.finite), source="script"),
            Evidence("its step", scalar.finite_step, source="script"),
        ),
        proof=Proof("hosts", row=first.host.agent, column="loss"),
    )


def _is_bad_now(view: HostView) -> bool:
    """Return whether the last values of a process, apart from its losses, are not all finite."""
    reported = view.current.pulse.reported
    values = {} if reported is None else reported.metrics
    return not all(isfinite(value) for name, value in values.items() if not is_loss(name))


def _severity(each: ProcessScalar) -> Severity:
    """Return how bad it is. A scalar that was never finite is meant to be so, or of no use."""
    scalar = each.scalar
    if scalar.finite is None and scalar.nonfinite is None:
        return Severity.INFO
    if scalar.nonfinite is not None:
        return Severity.CRITICAL if scalar.bad > 1 else Severity.WARNING
    return Severity.WARNING if scalar.bad > 1 else Severity.INFO


def _is_shown_loss(each: ProcessScalar) -> bool:
    """Return whether it is a loss that the rule about losses reports."""
    name, reported = each.scalar.name, each.host.pulse.reported
    return is_loss(name) and reported is not None and name in reported.metrics


def _norm_rose(facts: RunFacts) -> Iterator[Finding]:
    risen = [each for each in _reported(facts) if each.scalar.rise and not is_loss(each.scalar.name)]
    if not risen and not any(map(is_norm, _names(facts))):
        raise Unmeasured(_NO_NORMS)
    if risen:
        yield rise_finding(min(risen, key=_rose_at), Severity.INFO, 0.5)


def _rose_at(each: ProcessScalar) -> tuple[int, int]:
    rise = each.scalar.rise
    return (rise.step if rise else 0), each.host.process_index or 0


def _unchanged(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for each tree of which all or some parts stay exactly the same."""
    parts = [each for each in _reported(facts) if each.scalar.nonfinite is not None]
    if not parts:
        raise Unmeasured(_NO_NORMS)
    host = parts[0].host  # each process has the norms of the whole arrays
    names = [each.scalar.name for each in parts if each.host is host]
    same = [each for each in parts if each.host is host and _is_same(each, facts.number(STEPS))]
    for whole in (name for name in names if not any(name.startswith(f"{other}/") for other in names)):
        of_tree = [
            each for each in same if each.scalar.name == whole or each.scalar.name.startswith(f"{whole}/")
        ]
        if of_tree:
            is_all = any(each.scalar.name == whole for each in of_tree)
            yield _same(of_tree, whole, is_all=is_all)


def _is_same(each: ProcessScalar, steps: float) -> bool:
    scalar = each.scalar
    return scalar.same >= steps and scalar.step - (scalar.same_step or 0) >= steps


def _same(those: list[ProcessScalar], whole: str, *, is_all: bool) -> Finding:
    first = min(those, key=lambda each: (each.scalar.name != whole, -each.scalar.same))
    scalar = first.scalar
    since = scalar.same_step or 0
    for_steps = f"for {scalar.step - since:,} steps, since step {since:,}"
    more = f" ({len(those) - 1} more parts too)" if len(those) > 1 and not is_all else ""
    return Finding(
        Severity.WARNING if is_all else Severity.INFO,
        0.8 if is_all else 0.6,
        f"the norm of {first.name} has been exactly {scalar.value:.6g} {for_steps}{more}",
        Subject(agent=first.host.agent),
        about=whole,
        evidence=tuple(
            Evidence(each.scalar.name, measure(each.scalar.value), source="script", at=first.host.pulse_at)
            for each in those[:5]
        ),
        proof=Proof("hosts", row=first.host.agent),
    )


def _names(facts: RunFacts) -> set[str]:
    """Return the names of all scalars. Of those that are not notable, pulses have the last values."""
    hosts = list(reporting_hosts(facts))
    found = {name for host in hosts if (step := host.pulse.reported) is not None for name in step.metrics}
    has_norms = any(each.scalar.nonfinite is not None for each in scalars_on(hosts))
    return found | {"norm"} if has_norms else found


def _reported(facts: RunFacts) -> list[ProcessScalar]:
    return scalars_on(reporting_hosts(facts))


RULES = (
    Rule(
        name="bad_value",
        title="Value not finite",
        threshold="a scalar of the script that is no loss is NaN or infinite; a warning if it was finite "
        "before and is not in two values in a row; of norms (agent.norms) critical from two on",
        rationale="What first stops being finite is nearest to the cause: often a part of the gradients.",
        source=_SOURCE,
        advice="Look at the input and the learning rate of that step, and at what computes this value.",
        check=_not_finite,
    ),
    Rule(
        name="norm_rose",
        title="Norm rose",
        threshold="a norm exceeds its usual values in three values in a row, as a loss does for Bad loss",
        rationale="Norms of gradients often rise some steps before the loss does.",
        source=_SOURCE,
        advice="Look at the input of these steps; clip gradients, or lower the learning rate.",
        check=_norm_rose,
    ),
    Rule(
        name="unchanged",
        title="Parameters unchanged",
        threshold="the norm of a tree, or of a part of it, stays exactly the same for 200 steps; a warning "
        "if it is the whole tree",
        rationale="Parameters whose norm does not change in its last bit are not trained: their updates are "
        "lost, too small for their dtype, or masked.",
        source="agent.step(i, params=agent.norms(params))",
        advice="If the part is not meant to be frozen, look at the masks of the optimizer, at stop_gradient, "
        "and at updates that are too small for bfloat16.",
        check=_unchanged,
        numbers=(STEPS,),
    ),
)
