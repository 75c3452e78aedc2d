"""Processes that are lost, and runs that are stalled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base.names import shorten
from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured, never
from jaxtop.model.host import longest_compile, still_of
from jaxtop.model.liveness import BY_SEVERITY, State
from jaxtop.model.naming.sentences import acting, host_names
from jaxtop.model.stalls.case import DIFFERS_FOR, LOST, is_lost, was_still
from jaxtop.model.stalls.crashes import crashed, crashed_by_loss, has_known_end
from jaxtop.model.stalls.diagnosis import evidence
from jaxtop.model.stalls.lulls import MIN_LAUNCHES, computes, has_stacks_of_now, running_of, uses_cpu
from jaxtop.model.tuning import Number
from jaxtop.wire import LinkState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host
    from jaxtop.model.state import Diagnosis

_ADVICE = {
    State.DIED: "Read its standard error and the kernel log (out of memory?); restart from the checkpoint.",
    State.GONE: "Look on its host whether the process exists; if it ended early, read its standard error.",
    State.STOPPED: "It exists but does not run: send SIGCONT, or look for a debugger or a frozen container.",
    State.BLOCKED: "Its Python does not answer: a C extension may hold the GIL; see its stacks [9].",
    State.UNREACHABLE: "Check the network between this machine and that host; the process itself may run.",
}
# A process in one of these states does not run. In the others it may, and only this viewer does not hear it.
_CERTAIN = frozenset({State.DIED, State.STOPPED})
# Processes that died within this many seconds died together.
TOGETHER = 2.0
# A long stall with a known cause does not end by itself, unless the cause compiles, or still reads or writes.
LASTS = Number(
    "critical_seconds", 120.0, "critical after this many seconds, whoever waits, unless its cause works"
)
LONGEST_FUNCTION = 40
CONSEQUENCES = ("stalled", "straggler")


def stall_of(facts: RunFacts) -> Diagnosis | None:
    stall = facts.cluster.stalls.get(facts.run.id)
    return None if stall is None else stall.reported


def _explained(facts: RunFacts, lost: Sequence[Host]) -> tuple[str, ...]:
    """Return the rules that these lost processes explain.

    That is a stall only if its diagnosis names one of them that did not stand still before it was lost.
    """
    stall = stall_of(facts)
    culprits = {host.agent for host in lost if not was_still(host)}
    return CONSEQUENCES if stall is None or set(stall.odd) & culprits else ("straggler",)


def _host_lost(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for each state in which processes are lost; its subject is the first of them."""
    crashes = crashed(facts.run)[:1]
    for state in BY_SEVERITY:
        views = [view for view in facts.run.hosts if view.state is state]
        lost = [view.host for view in views if is_lost(view.host, state)]
        if not lost:
            continue
        lost.sort(key=lambda host: host.link_at)
        first = lost[0]
        is_certain = state in _CERTAIN
        has_crashed_others = any(crashed_by_loss(each, first.link_at) for each in crashes)
        is_grave = is_certain or has_crashed_others or stall_of(facts) is not None
        if state is State.DIED and all(host.is_lone_worker for host in lost):
            yield _worker_lost(facts, first)
            continue
        yield Finding(
            Severity.CRITICAL if is_grave else Severity.WARNING,
            1.0 if is_certain else 0.7,
            _lost_text(state, lost),
            Subject.of(first),
            about=str(state),
            evidence=(
                Evidence("processes lost", len(lost), source="connections", at=facts.read_time()),
                Evidence("last pulse", first.pulse_at, "timestamp", "agent", first.pulse_at),
            ),
            proof=Proof("hosts", row=first.agent, column="heard"),
            advice=_ADVICE[state],
            explains=(
                *_explained(facts, lost),
                *(("crashed",) if has_crashed_others else ()),
            ),
            since=first.link_at if first.link.state != LinkState.UP else 0.0,
            is_dated=state is not State.DIED or has_known_end(first),
        )


def _worker_lost(facts: RunFacts, worker: Host) -> Finding:
    """Return the finding on a worker that has ended without notice, as it does where its parent ends it."""
    parent = None if worker.hello is None else worker.hello.parent_pid
    return Finding(
        Severity.INFO,
        0.5,
        f"{acting([worker], 'has', 'have')} ended without notice: its parent ended it, or it was killed",
        Subject.of(worker),
        about="worker",
        evidence=(
            Evidence("parent", parent, source="agent", at=facts.read_time()),
            Evidence("last pulse", worker.pulse_at, "timestamp", "agent", worker.pulse_at),
        ),
        proof=Proof("hosts", row=worker.agent, column="heard"),
        advice="If its parent did not call terminate(): read its standard error and the kernel log.",
        explains=("straggler",),
        since=worker.link_at if worker.link.state != LinkState.UP else 0.0,
        is_dated=has_known_end(worker),
    )


def _lost_text(state: State, lost: list[Host]) -> str:
    """Return which processes are lost; where others followed the first, that one is named first."""
    later = [host for host in lost if host.link_at - lost[0].link_at > TOGETHER]
    if state is not State.DIED or not later:
        return acting(lost, *LOST[state])
    first = lost[: len(lost) - len(later)]
    after = later[0].link_at - lost[0].link_at
    return f"{acting(first, *LOST[state])} first, {host_names(later)} {after:.0f} s later"


def _stalled(facts: RunFacts) -> Iterator[Finding]:
    stall = stall_of(facts)
    if stall is None:
        yield from _compiling(facts)
        if seconds := _still_for(facts):
            raise Unmeasured(f"nothing was launched for {seconds:.0f} s, and the cause is not known yet")
        return
    hosts = facts.cluster.hosts
    host = hosts.get(stall.about)
    causes = [hosts[agent] for agent in stall.odd or stall.waiting if agent in hosts]
    works = stall.is_moving or any(each.pulse.compiling for each in causes)
    # Where no process is named, one that uses the CPU may compute without launches.
    works = works or (not stall.odd and any(map(uses_cpu, causes)))
    lasts = facts.read_time() - stall.began >= facts.number(LASTS) and not works
    yield Finding(
        Severity.CRITICAL if lasts else Severity(stall.severity),
        min(1.0, 0.5 + 0.125 * stall.certainty),
        stall.text,
        Subject(agent=stall.about, process_index=host.process_index if host else None),
        evidence=(
            Evidence(
                "without a launch",
                facts.read_time() - stall.began,
                "seconds",
                "launch counters",
                facts.read_time(),
            ),
            Evidence("processes that wait", len(stall.waiting), source="stacks", at=stall.at_ms / 1000),
            *evidence(facts.cluster, stall, facts.read_time()),
            *_of_processes(facts, stall),
        ),
        proof=Proof("stacks", row=stall.about),
        since=stall.began,
    )


def _of_processes(facts: RunFacts, stall: Diagnosis) -> Iterator[Evidence]:
    """Yield what one that waits has launched last, and what it and the cause wait in, or else wait for."""
    hosts = facts.cluster.hosts
    waiting = [hosts[agent] for agent in stall.waiting if agent in hosts]
    lulls = [host.pulse.lull for host in waiting if host.pulse.lull is not None]
    if lulls and lulls[0].function:
        last = shorten(lulls[0].function, LONGEST_FUNCTION)
        yield Evidence("launched last", last, source="launch counters", at=lulls[0].since_ms / 1000)
    causes = [hosts[agent] for agent in stall.odd if agent in hosts]
    for function, what, those in (
        ("native function", "waits for", waiting),
        ("native function of the cause", "the cause waits for", causes),
    ):
        known = [host.stacks for host in those if has_stacks_of_now(host) and host.stacks.telling.wait]
        if known:
            at, native = known[0].at_ms / 1000, known[0].telling
            name = function if native.waits_in else what
            yield Evidence(name, native.waits_in or native.waits_for, source="native stack", at=at)


def _still_for(facts: RunFacts) -> float:
    """Return for how long processes have launched nothing as never before; 0 if no stall is possible."""
    waits = []
    for view in facts.reporting:
        pulse, still, running = view.host.pulse, still_of(view.host), running_of(view.host)
        if still is None or pulse.compiling or (pulse.stall is None and computes(view.host)):
            continue
        seconds = (pulse.at_ms - still.since_ms) / 1000
        usual = 0.0 if pulse.lull is None or pulse.stall is not None else pulse.lull.longest_ms / 1000
        has_begun = running is not None or view.host.launches.get(still.function, 0) > MIN_LAUNCHES
        if (has_begun or pulse.stall is not None) and seconds > max(DIFFERS_FOR, usual):
            waits.append(seconds)
    is_known = bool(_compilers(facts)) or not waits
    return 0.0 if is_known else max(waits)


def _compilers(facts: RunFacts) -> list[tuple[float, Host, str]]:
    """Return the processes that have been compiling for a while: the seconds, and what; the longest first."""
    found = []
    for view in facts.reporting:
        if (running := longest_compile(view.host.pulse)) is not None:
            seconds, function = running
            found.append((seconds, view.host, function))
    return sorted((each for each in found if each[0] >= DIFFERS_FOR), key=lambda each: -each[0])


def _compiling(facts: RunFacts) -> Iterator[Finding]:
    """Yield a note while some processes compile and the others wait for them."""
    compilers = _compilers(facts)
    waiting = [view.host for view in facts.reporting if still_of(view.host) and not view.host.pulse.compiling]
    if not compilers or not waiting:
        return
    seconds, host, function = compilers[0]
    hosts = [each for _, each, _ in compilers]
    before = [
        one.duration_ms / 1000
        for view in facts.present
        for one in view.host.programs.compilations
        if one.function == function
    ]
    usual = f", which took {before[-1]:.0f} s before" if before else ""
    what = shorten(function, LONGEST_FUNCTION)
    yield Finding(
        Severity.INFO,
        0.9,
        f"{acting(hosts, 'has', 'have')} been compiling {what} for {seconds:.0f} s{usual}; "
        f"{acting(waiting, 'waits', 'wait')}",
        Subject.of(host),
        about="compiling",
        evidence=(
            Evidence("compiling", seconds, "seconds", "jax.monitoring", facts.read_time()),
            Evidence("took before", before[-1] if before else None, "seconds", "jax.monitoring"),
            Evidence("processes that wait", len(waiting), source="launch counters", at=facts.read_time()),
        ),
        proof=Proof("programs"),
        advice="Nothing is wrong yet: a compilation that only one process makes delays all. Compile the same "
        "on all of them, or use jax.config.jax_compilation_cache_dir.",
        explains=("gc_pauses", "straggler"),
        since=facts.read_time() - seconds,
    )


RULES = (
    Rule(
        name="host_lost",
        applies_after_exit=True,
        title="Host lost",
        threshold="a process died, is stopped, blocked, gone or not reachable; a warning where it may run "
        "and the others go on; a note on a worker with devices of its own, which its parent may have ended",
        rationale="A synchronous run waits for every process: one that is lost stops all others.",
        source="the connection to its agent, and the age of its last pulse",
        advice="Look at its machine.",
        check=_host_lost,
        holds_for=0.0,
        stays_for=0.0,
        explains=CONSEQUENCES,
        makes_event=never,
    ),
    Rule(
        name="stalled",
        title="Stalled",
        threshold="nothing is launched for far longer than usual, and no process makes progress",
        details=(
            (
                "Critical if several processes, or the only other one, wait for one that neither "
                "compiles nor computes nor reads nor writes."
            ),
            "Critical after 120 s, whoever waits, if the cause does not compute, compile, read or write.",
            (
                "Soon after the first steps, when their pace is not known yet: after 30 s, if no time "
                "without a launch was a third as long, and no process computes or serves."
            ),
            "A note while some compile for 10 s and others wait.",
        ),
        rationale="A hang costs every device of the run until somebody ends it.",
        source="launch counters of all processes, and stacks of their main threads; where these are alike, "
        "NCCL's RAS service or the TPU runtime; before the first steps, bytes read, written and received",
        advice="Look at the stacks [9]: they show at which line each process is, and what it waits for.",
        check=_stalled,
        holds_for=0.0,
        stays_for=0.0,
        explains=("straggler",),
        makes_event=never,
        numbers=(LASTS,),
    ),
)
