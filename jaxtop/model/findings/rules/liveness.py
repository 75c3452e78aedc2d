"""Processes that are lost, and runs that are stalled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule
from jaxtop.model.hosts import named
from jaxtop.model.liveness import BY_SEVERITY, State, was_never_reached
from jaxtop.model.stalls.diagnosis import LOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts

_ADVICE = {
    State.DIED: "Read its standard error and the kernel log (out of memory?); restart from the checkpoint.",
    State.GONE: "Look on its host whether the process exists; if it ended early, read its standard error.",
    State.STOPPED: "It exists but does not run: send SIGCONT, or look for a debugger or a frozen container.",
    State.BLOCKED: "Its Python does not answer: press p for its stacks; a C extension may hold the GIL.",
    State.UNREACHABLE: "Check the network between this machine and that host; the process itself may run.",
}


def _host_lost(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for each state in which processes are lost."""
    for state in BY_SEVERITY:
        lost = [
            view
            for view in facts.run.hosts
            if view.state is state in LOST and not was_never_reached(view.host)
        ]
        if not lost:
            continue
        first = lost[0].host
        hosts = [view.host for view in lost]
        yield Finding(
            "host_lost",
            Severity.CRITICAL,
            0.7 if state in (State.UNREACHABLE, State.GONE) else 1.0,
            facts.run.id,
            f"{named(hosts)} {LOST[state][len(lost) > 1]}",
            Subject(agent=first.agent, process_index=first.process_index),
            about=str(state),
            evidence=(
                Evidence("processes lost", len(lost), source="connections", at=facts.at),
                Evidence("last pulse", first.pulse_at, "timestamp", "agent", first.pulse_at),
            ),
            proof=Proof("hosts", row=first.agent),
            advice=_ADVICE[state],
            since=min(view.host.link_at or facts.at for view in lost),
        )


def _stalled(facts: RunFacts) -> Iterator[Finding]:
    stall = facts.cluster.stalls.get(facts.run.id)
    if stall is None or stall.reported is None:
        return
    found = stall.reported
    host = facts.cluster.hosts.get(found.about)
    yield Finding(
        "stalled",
        Severity(found.severity),
        min(1.0, 0.5 + 0.125 * found.certainty),
        facts.run.id,
        found.text,
        Subject(agent=found.about, process_index=host.process_index if host else None),
        evidence=(
            Evidence("without a launch", facts.at - found.began, "seconds", "launch counters", facts.at),
            Evidence("processes that wait", len(found.waiting), source="stacks", at=stall.reported_at),
        ),
        proof=Proof("stacks"),
        since=found.began,
    )


RULES = (
    Rule(
        name="host_lost",
        title="Host lost",
        threshold="a process died, is stopped, blocked, gone or not reachable",
        rationale="A synchronous run waits for every process: one that is lost stops all others.",
        source="the connection to its agent, and the age of its last pulse",
        advice="Look at the host.",
        check=_host_lost,
        holds_for=0.0,
        stays_for=0.0,
        explains=("stalled", "straggler"),
        makes_events=False,
    ),
    Rule(
        name="stalled",
        title="Stalled",
        threshold="nothing is launched for far longer than usual, and no process makes progress",
        rationale="A hang costs every device of the run until somebody ends it.",
        source="launch counters of all processes, and stacks of their main threads",
        advice="Press p for the stacks of all processes; the process that is named holds up the others.",
        check=_stalled,
        holds_for=0.0,
        stays_for=0.0,
        explains=("straggler",),
        makes_events=False,
    ),
)
