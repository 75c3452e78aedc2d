"""Processes that are lost or ended before the others, and runs that are stalled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, never
from jaxtop.model.hosts import named
from jaxtop.model.liveness import BY_SEVERITY, State, was_never_reached
from jaxtop.model.stalls.diagnosis import LOST
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host
    from jaxtop.model.state import Diagnosis

_ADVICE = {
    State.DIED: "Read its standard error and the kernel log (out of memory?); restart from the checkpoint.",
    State.GONE: "Look on its host whether the process exists; if it ended early, read its standard error.",
    State.STOPPED: "It exists but does not run: send SIGCONT, or look for a debugger or a frozen container.",
    State.BLOCKED: "Its Python does not answer: press p for its stacks; a C extension may hold the GIL.",
    State.UNREACHABLE: "Check the network between this machine and that host; the process itself may run.",
}
# A process in one of these states does not run. In the others it may, and only this viewer does not hear it.
_CERTAIN = frozenset({State.DIED, State.STOPPED})
# Processes that died within so many seconds died together.
TOGETHER = 2.0
# Processes of a run end within some seconds of each other.
ENDS_WITHIN = Number("seconds", 15.0, "reported when it ended so many seconds ago")
# A long stall with a known cause does not end by itself, unless the cause is a compilation.
LASTS = Number("critical_seconds", 120.0, "critical after so many seconds, if a process holds the others up")
_CONSEQUENCES = ("stalled", "straggler")


def _stall_of(facts: RunFacts) -> Diagnosis | None:
    stall = facts.cluster.stalls.get(facts.run.id)
    return None if stall is None else stall.reported


def _explained(facts: RunFacts, culprits: Collection[str]) -> tuple[str, ...]:
    """Return the rules that these lost processes explain: a stall only if its diagnosis names one of them."""
    stall = _stall_of(facts)
    return _CONSEQUENCES if stall is None or set(stall.odd) & set(culprits) else ("straggler",)


def _host_lost(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for each state in which processes are lost; its subject is the first of them."""
    for state in BY_SEVERITY:
        views = [view for view in facts.run.hosts if view.state is state]
        lost = [view.host for view in views if state in LOST and not was_never_reached(view.host)]
        if not lost:
            continue
        lost.sort(key=lambda host: host.link_at)
        first = lost[0]
        is_certain = state in _CERTAIN
        is_grave = is_certain or _stall_of(facts) is not None
        yield Finding(
            "host_lost",
            Severity.CRITICAL if is_grave else Severity.WARNING,
            1.0 if is_certain else 0.7,
            facts.run.id,
            _lost_text(state, lost),
            Subject(agent=first.agent, process_index=first.process_index),
            about=str(state),
            evidence=(
                Evidence("processes lost", len(lost), source="connections", at=facts.at),
                Evidence("last pulse", first.pulse_at, "timestamp", "agent", first.pulse_at),
            ),
            proof=Proof("hosts", row=first.agent, column="heard"),
            advice=_ADVICE[state],
            explains=_explained(facts, [host.agent for host in lost]),
            since=first.link_at if first.link.state != "up" else 0.0,
        )


def _lost_text(state: State, lost: list[Host]) -> str:
    """Return which processes are lost; where others followed the first, that one is named first."""
    later = [host for host in lost if host.link_at - lost[0].link_at > TOGETHER]
    if state is not State.DIED or not later:
        return f"{named(lost)} {LOST[state][len(lost) > 1]}"
    first = lost[: len(lost) - len(later)]
    after = later[0].link_at - lost[0].link_at
    return f"{named(first)} {LOST[state][len(first) > 1]} first, {named(later)} {after:.0f} s later"


def _stalled(facts: RunFacts) -> Iterator[Finding]:
    found = _stall_of(facts)
    if found is None:
        return
    hosts = facts.cluster.hosts
    host = hosts.get(found.about)
    is_compiling = any(hosts[agent].pulse.compiling for agent in found.odd if agent in hosts)
    lasts = bool(found.odd) and facts.at - found.began >= facts.number("stalled", LASTS) and not is_compiling
    yield Finding(
        "stalled",
        Severity.CRITICAL if lasts else Severity(found.severity),
        min(1.0, 0.5 + 0.125 * found.certainty),
        facts.run.id,
        found.text,
        Subject(agent=found.about, process_index=host.process_index if host else None),
        evidence=(
            Evidence("without a launch", facts.at - found.began, "seconds", "launch counters", facts.at),
            Evidence("processes that wait", len(found.waiting), source="stacks", at=found.at_ms / 1000),
        ),
        proof=Proof("stacks", row=found.about),
        since=found.began,
    )


def _ended_early(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for processes whose scripts ended while others of the run still run."""
    ended = [
        view.host
        for view in facts.run.hosts
        if view.state is State.ENDED and view.host.bye is not None and view.host.bye.reason == "ended"
    ]
    seconds = facts.number("ended_early", ENDS_WITHIN)
    ended = [host for host in ended if facts.at - (host.heard_at or facts.at) >= seconds]
    rest = [view.host for view in facts.reporting]
    if not ended or not rest:
        return
    ended.sort(key=lambda host: host.heard_at or 0.0)
    first, stall = ended[0], _stall_of(facts)
    yield Finding(
        "ended_early",
        Severity.INFO if stall is None else Severity(stall.severity),
        0.8,
        facts.run.id,
        f"{named(ended)} {'have' if len(ended) > 1 else 'has'} ended, "
        f"but {named(rest)} still {'run' if len(rest) > 1 else 'runs'}",
        Subject(agent=first.agent, process_index=first.process_index),
        evidence=(
            Evidence("ended", first.heard_at, "timestamp", "agent", first.heard_at),
            Evidence("steps that it made", first.steps.last if first.steps else None, source="script"),
        ),
        proof=Proof("hosts", row=first.agent, column="heard"),
        explains=() if stall is None else _CONSEQUENCES,
        since=first.heard_at or 0.0,
    )


RULES = (
    Rule(
        name="host_lost",
        title="Host lost",
        threshold="a process died, is stopped, blocked, gone or not reachable; a warning where it may run "
        "and the others go on",
        rationale="A synchronous run waits for every process: one that is lost stops all others.",
        source="the connection to its agent, and the age of its last pulse",
        advice="Look at the host.",
        check=_host_lost,
        holds_for=0.0,
        stays_for=0.0,
        explains=_CONSEQUENCES,
        makes_event=never,
    ),
    Rule(
        name="ended_early",
        title="Ended early",
        threshold="the script of a process ended 15 s ago, and others of its run still run; a note while "
        "they make progress",
        rationale="A script that ends with an exception says goodbye like one that is done, and the others "
        "wait for it in their next collective.",
        source="the last message of its agent",
        advice="Read its standard error and its exit status.",
        check=_ended_early,
        holds_for=0.0,
        stays_for=0.0,
        explains=_CONSEQUENCES,
        numbers=(ENDS_WITHIN,),
    ),
    Rule(
        name="stalled",
        title="Stalled",
        threshold="nothing is launched for far longer than usual, and no process makes progress; critical "
        "if several processes wait, or after 120 s if a process holds them up that does not compile",
        rationale="A hang costs every device of the run until somebody ends it.",
        source="launch counters of all processes, and stacks of their main threads",
        advice="Press p for the stacks of all processes; the process that is named holds up the others.",
        check=_stalled,
        holds_for=0.0,
        stays_for=0.0,
        explains=("straggler",),
        makes_event=never,
        numbers=(LASTS,),
    ),
)
