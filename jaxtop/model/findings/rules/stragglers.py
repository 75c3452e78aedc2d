"""A process or device that the others wait for in every collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.collectives.verdict import LATE_MS, LATE_MS_ON_CPU
from jaxtop.model.finding import Cost, Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.gaps import LATER_MS
from jaxtop.model.hosts import named
from jaxtop.model.tuning import Number
from jaxtop.wire import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.collectives.views import CollectiveView
    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.gaps import Gap

CRITICAL_SHARE = Number("critical_share", 0.25, "lateness is critical from this share of a step on")


def _check(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for each late process: by its script, or by the collectives in which others wait."""
    late_scripts = facts.late_scripts
    if late_scripts:
        yield _by_script(facts, late_scripts)
    views = facts.collectives
    if not views and not late_scripts:
        raise Unmeasured("no collectives were found")
    worst: dict[str, CollectiveView] = {}
    for view in views:
        late = view.straggler
        if late is None or any(each.host.agent == late.agent for each in late_scripts):
            continue
        before = worst.get(late.agent)
        if before is None or before.straggler is None or late.late_us > before.straggler.late_us:
            worst[late.agent] = view
    for agent, view in worst.items():
        yield _finding(facts, agent, view)
    if not late_scripts and not any(view.is_enough for view in views):
        raise Unmeasured("too few windows of the profiler yet")


def _by_script(facts: RunFacts, late: list[Gap]) -> Finding:
    """Return the finding of the processes whose main threads are in the script while all others wait."""
    worst = late[0]
    host, line = worst.host, worst.line(SCRIPT)
    place = "" if line is None else f"{line[0].place.file}:{line[0].place.line}"
    where = "" if line is None else f": {place} {line[0].place.function}"
    at, many = host.pulse_at, len(late) > 1
    return Finding(
        "straggler",
        _severity(facts, worst.share),
        0.9,
        facts.run.id,
        f"{named([each.host for each in late])} {'are' if many else 'is'} late: the others wait "
        f"{worst.ms:.0f} ms of a {worst.step_ms:.0f} ms step ({worst.share:.0%}) for "
        f"{'their scripts' if many else 'its script'}{where}",
        Subject(agent=host.agent, process_index=host.process_index, source=place),
        about=host.agent,
        cost=Cost(worst.ms, worst.share),
        evidence=(
            Evidence("step longer than its programs", worst.share, "ratio", "steps and windows", at),
            Evidence("main thread in the script", worst.script, "ratio", "samples of the main thread", at),
            Evidence("processes", len(late), source="samples of the main thread", at=at),
        ),
        proof=Proof("stacks", row=host.agent),
        explains=("slower_than_before", "communication_bound"),
        advice="Make that line faster on this host, or run it on another thread while the devices compute: "
        "look at its disk, its network, its share of the data.",
    )


def is_by_script(finding: Finding) -> bool:
    """Whether a straggler was found by samples of its main thread, which no figure of a collective shows."""
    return finding.rule == "straggler" and not finding.subject.collective


def _severity(facts: RunFacts, share: float | None) -> Severity:
    is_critical = (share or 0.0) >= facts.number("straggler", CRITICAL_SHARE)
    return Severity.CRITICAL if is_critical else Severity.WARNING


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
        _severity(facts, share),
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
        "later than 5 ms (25 ms on CPU), 3 % of the launch and three times the usual spread; or the main "
        "threads of at most half of the processes are in the script for 15 % of each step more than others",
        rationale="In a synchronous step everyone waits for the last: its delay is paid by every device.",
        source="durations of each collective on all devices, from windows of the profiler; samples of the "
        "main threads and times of steps",
        advice="Look at that host: CPU used by others, throttling, slow input. Its stacks (p) show what it "
        "does before the launch.",
        check=_check,
        holds_for=0.0,
        numbers=(CRITICAL_SHARE, LATE_MS, LATE_MS_ON_CPU, LATER_MS),
        makes_event=is_by_script,  # one of a collective has events of its own
    ),
)
