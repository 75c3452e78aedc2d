"""Losses that the script reports: not finite, or far above what they were."""

from __future__ import annotations

from functools import partial
from math import isfinite, isnan
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.naming.sentences import host_names
from jaxtop.model.steps.losses import UsualLoss, may_be_high, usual
from jaxtop.model.steps.scalars import ProcessScalar, first_bad, measure, scalars_on, shortened
from jaxtop.model.tuning import Number
from jaxtop.wire import is_loss

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host
    from jaxtop.model.past_values import LossValues

LASTING_REPORTS = Number("critical_reports", 2, "critical if not finite in this many reports in a row")
HIGH_LOSS_SHARE = Number("share", 0.5, "high from this share above its median on")
HIGH_LOSS_SPREADS = Number("spreads", 10.0, "high from this many times its usual spread above its median on")
# A loss is high if it already was so this long ago, in another step.
HIGH_FOR_MS = 1_500


class _Loss(NamedTuple):
    """A loss of a host, its value now, and what was usual before."""

    host: Host
    loss: LossValues
    value: float
    usual: UsualLoss | None = None

    @property
    def excess(self) -> float:
        return 0.0 if self.usual is None else self.value - self.usual.median

    @property
    def is_high(self) -> bool:
        return self.usual is not None and self.value > self.usual.limit


def _bad_loss(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding if a loss is not finite, or else if one is far above its own history."""
    bad: list[_Loss] = []
    suspects: list[_Loss] = []
    is_reported, share = False, facts.number(HIGH_LOSS_SHARE)
    risen: list[ProcessScalar] = []
    for host in reporting_hosts(facts):
        step = host.pulse.reported
        risen += [each for each in scalars_on([host]) if _has_risen(each, share)]
        for loss in host.losses if step is not None else ():
            value = step.metrics.get(loss.name) if step is not None else None
            if value is None:
                continue
            is_reported = True
            if not isfinite(value):
                bad.append(_Loss(host, loss, value))
            elif may_be_high(loss, value, share):
                suspects.append(_Loss(host, loss, value))
    if not is_reported and not risen:
        raise Unmeasured("the script reports no loss: agent.step(i, loss=…)")
    high = [each for each in map(partial(_with_usual, facts), suspects) if each.is_high]
    if bad:
        yield _not_finite(facts, bad)
    elif risen:
        yield rise_finding(min(risen, key=lambda each: each.host.process_index or 0), Severity.WARNING, 0.8)
    elif lasting := [each for each in high if _was_high(each)]:
        yield _spike(facts, high, lasting)


def reporting_hosts(facts: RunFacts) -> Iterator[Host]:
    """Yield the hosts whose scalars count: those that report, or after the end of a run all."""
    views = facts.run.hosts if facts.run.has_ended else facts.reporting
    return (view.host for view in views)


def _has_risen(each: ProcessScalar, share: float) -> bool:
    rise = each.scalar.rise
    return (
        rise is not None and is_loss(each.scalar.name) and rise.value - rise.median > share * abs(rise.median)
    )


def rise_finding(each: ProcessScalar, severity: Severity, confidence: float) -> Finding:
    """Return the finding about a scalar that has risen, by what its agent has seen of each value."""
    host, scalar, rise = each.host, each.scalar, each.scalar.rise
    assert rise is not None
    led = f", {rise.led_steps:,} steps after {shortened(rise.led_by)}" if rise.led_by else ""
    return Finding(
        severity,
        confidence,
        f"{each.name} rose to {rise.value:.4g} from its usual {rise.low:.4g} to {rise.high:.4g} "
        f"at step {rise.step:,}{led}",
        Subject(agent=host.agent),
        about="high",
        evidence=(
            Evidence(scalar.name, measure(rise.value), source="script", at=host.pulse_at),
            Evidence("step of this value", rise.value_step, source="script"),
            Evidence("first step of the rise", rise.step, source="script"),
            Evidence("its usual median", measure(rise.median), source="script"),
            Evidence("usual from", measure(rise.low), source="script"),
            Evidence("usual to", measure(rise.high), source="script"),
            *((Evidence("rose before it", rise.led_by, source="script"),) if rise.led_by else ()),
        ),
        proof=Proof("hosts", row=host.agent, column="loss"),
    )


def _not_finite(facts: RunFacts, bad: list[_Loss]) -> Finding:
    # The host where it began names the step: the one with most reports changes from check to check.
    exact = [each for each in map(_exactly, bad) if each is not None]
    host, loss, value, _ = min(bad, key=lambda each: (_since(each), each.host.process_index or 0))
    known = next((each for each in exact if each.host is host and each.scalar.name == loss.name), None)
    last, since = loss.values[-1] if loss.values else None, loss.bad_step or 0
    last_step, in_a_row = loss.last_step, max(each.loss.bad for each in bad)
    before = ", the first one" if last is None else f"; it was {last:.4g} before"
    when, cause = f"since about step {since:,}{before}", ""
    evidence: tuple[Evidence, ...] = ()
    if known is not None:
        when, since, in_a_row = known.since, known.bad_step, max(in_a_row, known.scalar.bad)
        last, last_step = known.scalar.finite, known.scalar.finite_step
        evidence = (Evidence("first step that was not finite", since, source="script"),)
        first = first_bad(scalars_on(reporting_hosts(facts)))
        if first is not None and first.bad_step < since:
            cause = f"; {first.name} since step {first.bad_step:,}"
            evidence = (*evidence, Evidence("not finite before it", first.scalar.name, source="script"))
    what, lasting = "NaN" if isnan(value) else "infinite", facts.number(LASTING_REPORTS)
    where = _where(facts, bad, loss.name, since)
    return Finding(
        Severity.CRITICAL if in_a_row >= lasting else Severity.WARNING,
        1.0,
        f"{shortened(loss.name)} is {what}{where} {when}{cause}",
        Subject(agent=host.agent, process_index=host.process_index if where else None),
        about="not finite",
        evidence=(
            Evidence(loss.name, what, source="script", at=host.pulse_at),
            Evidence("last finite value", measure(last), source="script"),
            Evidence("its step", last_step, source="script"),
            Evidence("reports in a row that were not finite", in_a_row, source="script", at=host.pulse_at),
            *evidence,
        ),
        proof=Proof("hosts", row=host.agent, column="loss"),
        explains=("bad_value", "norm_rose"),
        advice="Go back to a checkpoint before that step; with jax.config.update('jax_debug_nans', True) JAX "
        "names the operation. Look at the input and the learning rate of that step.",
    )


def _exactly(each: _Loss) -> ProcessScalar | None:
    """Return what the agent has noted of a loss that is not finite; None if it has not yet, or is older."""
    found = (on for on in scalars_on([each.host]) if on.scalar.name == each.loss.name and on.scalar.bad)
    return next(found, None)


def _since(each: _Loss) -> int:
    exact = _exactly(each)
    return (each.loss.bad_step or 0) if exact is None else exact.bad_step


def _spike(facts: RunFacts, high: list[_Loss], lasting: list[_Loss]) -> Finding:
    host, loss, value, before = max(lasting, key=lambda each: each.excess)
    assert before is not None
    where = _where(facts, high, loss.name, loss.last_step or 0)
    times = f", {value / before.median:.1f} times its usual" if before.median > 0 else " from its usual"
    return Finding(
        Severity.WARNING,
        0.7,
        f"{loss.name} rose to {value:.4g}{where}{times} {before.median:.4g}, by step {loss.last_step:,}",
        Subject(agent=host.agent, process_index=host.process_index if where else None),
        about="high",
        evidence=(
            Evidence(loss.name, measure(value), source="script", at=host.pulse_at),
            Evidence("its median in two minutes", before.median, source="script"),
            Evidence("limit", before.limit, source="script"),
        ),
        proof=Proof("hosts", row=host.agent, column="loss"),
    )


def _with_usual(facts: RunFacts, each: _Loss) -> _Loss:
    cluster, host = facts.cluster, each.host
    share, spreads = (facts.number(number) for number in (HIGH_LOSS_SHARE, HIGH_LOSS_SPREADS))
    found: dict[str, UsualLoss | None] = cluster.derived.of(
        "usual losses",
        host.agent,
        cluster.hosts,
        (host.losses,),
        lambda: {loss.name: usual(loss, share, spreads) for loss in host.losses},
    )
    return each._replace(usual=found[each.loss.name])


def _was_high(each: _Loss) -> bool:
    """Return whether a loss was already high some time ago, in another step."""
    pulse, reported, loss = each.host.pulse, each.host.pulse.reported, each.loss
    assert reported is not None
    assert each.usual is not None
    is_last = reported.calls == loss.calls or pulse.at_ms - loss.at_ms < HIGH_FOR_MS
    return loss.values[-2 if is_last else -1] > each.usual.limit


def _where(facts: RunFacts, those: list[_Loss], name: str, step: int) -> str:
    """Return on which hosts; empty unless a host has reported another loss of that step or a later one."""
    hosts = [each.host for each in those if each.loss.name == name]
    agents = {host.agent for host in hosts}
    differs = any(
        host.agent not in agents and reported.index >= step and name in reported.metrics
        for host in reporting_hosts(facts)
        if (reported := host.pulse.reported) is not None
    )
    return f" on {host_names(hosts)}" if differs else ""


RULES = (
    Rule(
        name="bad_loss",
        title="Bad loss",
        threshold="a metric with 'loss' in its name is NaN or infinite, or far above what is usual",
        details=(
            "Critical if it is not finite in two reports in a row.",
            (
                "Far above: in three values in a row by half of the usual median and by ten times the"
                " usual spread, and above its highest value; in two steps 2 s apart of scripts whose "
                "agents do not see each value."
            ),
        ),
        rationale="A loss that is not finite has usually spoilt the parameters: all later steps are lost.",
        source="agent.step(i, loss=…), files of TensorBoard and W&B, calls of MLflow and Trackio",
        advice="Look at the input of these steps and at the learning rate; if it does not come down, go "
        "back to an earlier checkpoint.",
        check=_bad_loss,
        holds_for=0.0,
        explains=("norm_rose",),
        numbers=(HIGH_LOSS_SHARE, HIGH_LOSS_SPREADS, LASTING_REPORTS),
    ),
)
