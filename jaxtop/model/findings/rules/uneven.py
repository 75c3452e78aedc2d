"""A device that computes longer than the other devices of its process, though all were launched together."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from jaxtop.model.finding import Cost, Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.collectives.views import CollectiveView
    from jaxtop.model.findings.rule import RunFacts

OF_LATENESS = Number("share", 0.7, "reported if the others of its process wait this share of its lateness")
FEWEST_SIBLINGS = 1


def _check(facts: RunFacts) -> Iterator[Finding]:
    if not any(view.is_enough for view in facts.collectives):
        raise Unmeasured(
            "too few windows of the profiler yet" if facts.collectives else "no collectives were found"
        )
    found = [(us, view) for view in facts.collectives if (us := _uneven_us(facts, view)) is not None]
    if not found:
        return
    us, view = max(found, key=lambda each: each[0])
    late = view.straggler
    assert late is not None
    ms, axis = us / 1000, ", ".join(view.axes or ())
    share = facts.share_of_step(ms)
    of_step = "" if share is None else f" of a {facts.step_ms:.0f} ms step"
    yield Finding(
        "uneven_work",
        Severity.WARNING,
        late.share * 0.8,
        facts.run.id,
        f"device {late.device_id} computes {ms:.0f} ms{of_step} longer than the other devices of its process "
        f"before {view.op}" + (f" over {axis}" if axis else ""),
        Subject(
            agent=late.agent,
            process_index=late.process_index,
            device_id=late.device_id,
            program=view.program,
            collective=view.op,
            axis=axis,
        ),
        about=str(late.device_id),
        cost=Cost(ms, share),
        evidence=(
            Evidence("wait of the other devices of its process", us / 1e6, "seconds", "profiler windows"),
            Evidence("share of samples in which it came last", late.share, "ratio", "profiler windows"),
            Evidence("samples", view.samples, source="profiler windows"),
        ),
        proof=Proof("collectives", row=view.op),
        explains=("straggler",) if facts.late == {late.agent} else (),
    )


def _uneven_us(facts: RunFacts, view: CollectiveView) -> float | None:
    """Return how long the siblings of a late device wait for it; None if they are about as late as it is."""
    late = view.straggler
    host = facts.cluster.hosts.get(late.agent) if late is not None else None
    if late is None or host is None or host.hello is None or late.device_id not in view.waits_us:
        return None
    waits = view.waits_us
    siblings = [
        waits[each.id] for each in host.hello.devices if each.id in waits and each.id != late.device_id
    ]
    if len(siblings) < FEWEST_SIBLINGS:
        return None
    longer = median(siblings) - waits[late.device_id]
    least = facts.number("uneven_work", OF_LATENESS) * late.late_us
    return longer if longer >= least else None


RULES = (
    Rule(
        name="uneven_work",
        title="Uneven work",
        threshold="a straggler for which the other devices of its own process wait, too, for 70 % of its "
        "lateness",
        rationale="Devices of a process are launched together: one that is late has more to compute, or is "
        "slower.",
        source="durations of each collective on all devices, from windows of the profiler",
        advice="Balance what depends on the device: tokens per expert, masked or padded batches, stages of "
        "a pipeline. If its work is equal, look at its clock and temperature.",
        check=_check,
        holds_for=0.0,
        numbers=(OF_LATENESS,),
    ),
)
