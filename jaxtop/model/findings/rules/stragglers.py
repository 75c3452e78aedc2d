"""A process or device that the others wait for in every collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.finding import Cost, Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.collectives.views import CollectiveView
    from jaxtop.model.findings.rule import RunFacts

CRITICAL_SHARE = Number("critical_share", 0.25, "lateness is critical from this share of a step on")


def _check(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for each late process, with the collective in which others wait longest for it."""
    views = facts.collectives
    if not views:
        raise Unmeasured("no collectives were found")
    worst: dict[str, CollectiveView] = {}
    for view in views:
        late = view.straggler
        if late is None:
            continue
        before = worst.get(late.agent)
        if before is None or before.straggler is None or late.late_us > before.straggler.late_us:
            worst[late.agent] = view
    for agent, view in worst.items():
        yield _finding(facts, agent, view)
    if not any(view.is_enough for view in views):
        raise Unmeasured("too few windows of the profiler yet")


def _finding(facts: RunFacts, agent: str, view: CollectiveView) -> Finding:
    late = view.straggler
    assert late is not None
    host = facts.cluster.hosts.get(agent)
    ms = late.late_us / 1000
    share = facts.share_of_step(ms)
    axis = ", ".join(view.axes or ())
    who = host.label if host else agent
    of_step = "" if share is None else f" of a {facts.step_ms:.0f} ms step ({share:.0%})"
    return Finding(
        "straggler",
        Severity.CRITICAL
        if (share or 0.0) >= facts.number("straggler", CRITICAL_SHARE)
        else Severity.WARNING,
        late.share,
        facts.run.id,
        f"{who} is late: the others wait {ms:.0f} ms{of_step} for it in {view.op}"
        + (f" over {axis}" if axis else ""),
        Subject(
            agent=agent,
            process_index=late.process_index,
            device_id=late.device_id,
            program=view.program,
            collective=view.op,
            axis=axis,
        ),
        about=agent,
        cost=Cost(ms_per_step=ms, share_of_step=share),
        evidence=(
            Evidence("wait of the others", ms / 1000, "seconds", "profiler windows"),
            Evidence("share of samples in which it came last", late.share, "ratio", "profiler windows"),
            Evidence("samples", view.samples, source="profiler windows"),
        ),
        proof=Proof("collectives", row=view.op),
    )


RULES = (
    Rule(
        name="straggler",
        title="Straggler",
        threshold="the same process or device comes last in 75 % of the samples of three windows, "
        "later than 5 ms (25 ms on CPU), 3 % of the launch and three times the usual spread",
        rationale="In a synchronous step everyone waits for the last: its delay is paid by every device.",
        source="durations of each collective on all devices, from windows of the profiler",
        advice="Look at that host: CPU used by others, throttling, slow input. Its stacks (p) show what it "
        "does before the launch.",
        check=_check,
        holds_for=0.0,
        numbers=(CRITICAL_SHARE,),
        makes_events=False,
    ),
)
