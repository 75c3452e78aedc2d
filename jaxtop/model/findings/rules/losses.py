"""Losses that the script reports: not finite, or far above what they were."""

from __future__ import annotations

from functools import partial
from math import isfinite, isnan
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.naming.sentences import host_names
from jaxtop.model.steps.losses import Usual, may_be_high, usual
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.earlier import LossValues
    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host

LASTING_REPORTS = Number("critical_reports", 2, "critical if not finite in this many reports in a row")
SHARE = Number("share", 0.5, "high from this share above its median on")
SPREADS = Number("spreads", 10.0, "high from this many times its usual spread above its median on")
# A loss is high if it already was so this long ago, in another step.
HIGH_FOR_MS = 1_500


class _Loss(NamedTuple):
    """A loss of a host, its value now, and what was usual before."""

    host: Host
    loss: LossValues
    value: float
    usual: Usual | None = None

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
    is_reported, share = False, facts.number(SHARE)
    for host in _hosts(facts):
        step = host.pulse.reported
        for loss in host.losses if step is not None else ():
            value = step.metrics.get(loss.name) if step is not None else None
            if value is None:
                continue
            is_reported = True
            if not isfinite(value):
                bad.append(_Loss(host, loss, value))
            elif may_be_high(loss, value, share):
                suspects.append(_Loss(host, loss, value))
    if not is_reported:
        raise Unmeasured("the script reports no loss: agent.step(i, loss=…)")
    high = [each for each in map(partial(_with_usual, facts), suspects) if each.is_high]
    if bad:
        yield _not_finite(facts, bad)
    elif lasting := [each for each in high if _was_high(each)]:
        yield _spike(facts, high, lasting)


def _hosts(facts: RunFacts) -> Iterator[Host]:
    views = facts.run.hosts if facts.run.has_ended else facts.reporting
    return (view.host for view in views)


def _not_finite(facts: RunFacts, bad: list[_Loss]) -> Finding:
    # The host where it began names the step: the one with most reports changes from check to check.
    host, loss, value, _ = min(bad, key=lambda each: (each.loss.bad_step or 0, each.host.process_index or 0))
    last, since = loss.values[-1] if loss.values else None, loss.bad_step or 0
    in_a_row = max(each.loss.bad for each in bad)
    what, lasting = "NaN" if isnan(value) else "infinite", facts.number(LASTING_REPORTS)
    where = _where(facts, bad, loss.name, since)
    before = ", the first one" if last is None else f"; it was {last:.4g} before"
    return Finding(
        Severity.CRITICAL if in_a_row >= lasting else Severity.WARNING,
        1.0,
        f"{loss.name} is {what}{where} since about step {since:,}{before}",
        Subject(agent=host.agent, process_index=host.process_index if where else None),
        about="not finite",
        evidence=(
            Evidence(loss.name, what, source="script", at=host.pulse_at),
            Evidence("last finite value", last, source="script"),
            Evidence("its step", loss.last_step, source="script"),
            Evidence("reports in a row that were not finite", in_a_row, source="script", at=host.pulse_at),
        ),
        proof=Proof("hosts", row=host.agent, column="loss"),
        advice="Go back to a checkpoint before that step; with jax.config.update('jax_debug_nans', True) JAX "
        "names the operation. Look at the input and the learning rate of that step.",
    )


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
            Evidence(loss.name, value, source="script", at=host.pulse_at),
            Evidence("its median in two minutes", before.median, source="script"),
            Evidence("limit", before.limit, source="script"),
        ),
        proof=Proof("hosts", row=host.agent, column="loss"),
    )


def _with_usual(facts: RunFacts, each: _Loss) -> _Loss:
    cluster, host = facts.cluster, each.host
    share, spreads = (facts.number(number) for number in (SHARE, SPREADS))
    found: dict[str, Usual | None] = cluster.derived.of(
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
        for host in _hosts(facts)
        if (reported := host.pulse.reported) is not None
    )
    return f" on {host_names(hosts)}" if differs else ""


RULES = (
    Rule(
        name="bad_loss",
        title="Bad loss",
        threshold="a metric with 'loss' in its name is NaN or infinite (critical from two reports in a row "
        "on), or exceeds its median of two minutes by half and by ten times its usual spread, in two steps "
        "2 s apart",
        rationale="A loss that is not finite has usually spoilt the parameters: all later steps are lost.",
        source="agent.step(i, loss=…)",
        advice="Look at the input of these steps and at the learning rate; if it does not come down, go "
        "back to an earlier checkpoint.",
        check=_bad_loss,
        holds_for=0.0,
        numbers=(SHARE, SPREADS, LASTING_REPORTS),
    ),
)
