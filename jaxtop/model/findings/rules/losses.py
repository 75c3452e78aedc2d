"""Losses that the script reports: not finite, or far above what they were."""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import isfinite, isnan
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.hosts import named
from jaxtop.model.losses import Usual, may_be_high, usual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host
    from jaxtop.wire import PastLoss

# A loss that is not finite in this many reports in a row stays so.
LASTING_REPORTS = 2
# A loss is high if it already was so this long ago, in another step.
HIGH_FOR_MS = 2_000


class _Loss(NamedTuple):
    """A loss of a host, its value now, and what was usual before."""

    host: Host
    loss: PastLoss
    value: float
    usual: Usual | None = None


def _bad_loss(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding if a loss is not finite, or else if one is far above its own history."""
    views = facts.run.hosts if facts.run.has_ended else facts.reporting
    hosts_of: Counter[str] = Counter()
    bad: list[_Loss] = []
    suspects: list[_Loss] = []
    for view in views:
        host = view.last
        step = host.pulse.step
        for loss in host.losses if step is not None else ():
            value = step.metrics.get(loss.name) if step is not None else None
            if value is None:
                continue
            hosts_of[loss.name] += 1
            if not isfinite(value):
                bad.append(_Loss(host, loss, value))
            elif may_be_high(loss, value):
                suspects.append(_Loss(host, loss, value))
    if not hosts_of:
        raise Unmeasured("the script reports no loss: agent.step(i, loss=…)")
    if bad:
        yield _not_finite(facts, hosts_of, bad)
    elif high := [each for each in map(partial(_with_usual, facts), suspects) if _is_high(each)]:
        yield _spike(facts, hosts_of, high)


def _not_finite(facts: RunFacts, hosts_of: Counter[str], bad: list[_Loss]) -> Finding:
    worst = max(bad, key=lambda each: each.loss.bad)
    host, loss, value, _ = worst
    step, last = host.pulse.step, loss.values[-1] if loss.values else None
    assert step is not None
    what = "NaN" if isnan(value) else "infinite"
    before = "since the first report" if last is None else f"step {loss.last_step:,} still had {last:.4g}"
    return Finding(
        "bad_loss",
        Severity.CRITICAL if loss.bad >= LASTING_REPORTS else Severity.WARNING,
        1.0,
        facts.run.id,
        f"{loss.name} is {what}{_where(hosts_of, bad, loss.name)} in step {step.index:,}; {before}",
        _subject_of_losses(hosts_of, bad, worst),
        about="not finite",
        evidence=(
            Evidence(loss.name, what, source="script", at=host.pulse_at),
            Evidence("last finite value", last, source="script"),
            Evidence("its step", loss.last_step, source="script"),
            Evidence("reports in a row that were not finite", loss.bad, source="script", at=host.pulse_at),
        ),
        proof=Proof("hosts", row=host.agent),
        advice="Go back to a checkpoint before that step; with jax.config.update('jax_debug_nans', True) JAX "
        "names the operation. Look at the input and the learning rate of that step.",
    )


def _spike(facts: RunFacts, hosts_of: Counter[str], high: list[_Loss]) -> Finding:
    worst = max(high, key=lambda each: each.value - (each.usual.median if each.usual else 0.0))
    host, loss, value, before = worst
    step = host.pulse.step
    assert before is not None
    assert step is not None
    times = f", {value / before.median:.1f} times its usual" if before.median > 0 else " from its usual"
    return Finding(
        "bad_loss",
        Severity.WARNING,
        0.7,
        facts.run.id,
        f"{loss.name} rose to {value:.4g}{_where(hosts_of, high, loss.name)}{times} {before.median:.4g}, "
        f"in step {step.index:,}",
        _subject_of_losses(hosts_of, high, worst),
        about="high",
        evidence=(
            Evidence(loss.name, value, source="script", at=host.pulse_at),
            Evidence("its median in five minutes", before.median, source="script"),
            Evidence("limit", before.limit, source="script"),
        ),
        proof=Proof("hosts", row=host.agent),
    )


def _with_usual(facts: RunFacts, each: _Loss) -> _Loss:
    cluster, host = facts.cluster, each.host
    found: dict[str, Usual | None] = cluster.derived.of(
        "usual losses",
        host.agent,
        cluster.hosts,
        (host.losses,),
        lambda: {loss.name: usual(loss) for loss in host.losses},
    )
    return each._replace(usual=found[each.loss.name])


def _is_high(each: _Loss) -> bool:
    """Return whether a loss is high now and was already some seconds ago, in another step."""
    if each.usual is None or each.value <= each.usual.limit:
        return False
    pulse, loss = each.host.pulse, each.loss
    assert pulse.step is not None
    is_last = pulse.step.calls == loss.calls or pulse.at_ms - loss.at_ms < HIGH_FOR_MS
    return loss.values[-2 if is_last else -1] > each.usual.limit


def _where(hosts_of: Counter[str], those: list[_Loss], name: str) -> str:
    """Return on which hosts; empty if all that report this loss are meant."""
    hosts = [each.host for each in those if each.loss.name == name]
    is_all = len(hosts) == hosts_of[name]
    return "" if is_all else f" on {named(hosts)}"


def _subject_of_losses(hosts_of: Counter[str], those: list[_Loss], worst: _Loss) -> Subject:
    everywhere = not _where(hosts_of, those, worst.loss.name)
    return Subject(agent=worst.host.agent, process_index=None if everywhere else worst.host.process_index)


RULES = (
    Rule(
        name="bad_loss",
        title="Bad loss",
        threshold="a metric with 'loss' in its name is NaN or infinite (critical from two reports in a row "
        "on), or exceeds its median of five minutes by half and by ten times its usual spread, in two steps "
        "2 s apart",
        rationale="A loss that is not finite has usually spoilt the parameters: all later steps are lost.",
        source="agent.step(i, loss=…)",
        advice="Look at the input of these steps and at the learning rate; if it does not come down, go "
        "back to an earlier checkpoint.",
        check=_bad_loss,
        holds_for=0.0,
    ),
)
