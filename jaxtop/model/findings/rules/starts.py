"""Processes that never started or never launched, and processes that were started again."""

from __future__ import annotations

from statistics import median_low
from typing import TYPE_CHECKING

from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule
from jaxtop.model.host import still_of
from jaxtop.model.liveness import State, was_never_reached
from jaxtop.model.naming.sentences import acting, ranges
from jaxtop.model.stalls.lulls import has_stacks_of_now
from jaxtop.model.stalls.stacks import main_frames
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host

# Where a process waits until all others have connected.
_JOINS_IN = "jax/_src/distributed.py"
# Processes are started within some seconds of each other.
JOINS_AFTER = Number("seconds", 10.0, "a wait for others is reported from this many seconds on")
JOINS_LATE = Number("warning_seconds", 30.0, "a wait for others is a warning from this many seconds on")
MEETS_WITHIN = Number("idle_seconds", 60.0, "seconds after which a process must have launched, or been met")
IDLE_LAUNCHES = Number("launches", 100, "a process is idle once the others made this many launches")
# A restart is news for an hour.
RESTART_IS_NEWS = 3600.0
LOOP_STARTS = Number("warning_starts", 3, "a warning from this many starts on")
LOOP_WITHIN = Number("warning_seconds", 600.0, "a warning if the last start was less than so long ago")


def _never_started(facts: RunFacts) -> Iterator[Finding]:
    yield from _joining(facts)
    yield from _missing(facts)
    yield from _unreached(facts)
    yield from _idle(facts)


def _joining(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding if processes wait in `jax.distributed.initialize` for others."""
    waits = {}
    for view in facts.reporting:
        host, still = view.host, still_of(view.host)
        if still is not None and host.hello is not None and host.hello.platform is None and _joins(host):
            waits[host.agent] = host, (host.pulse.at_ms - still.since_ms) / 1000
    seconds = max((each for _, each in waits.values()), default=0.0)
    if seconds < facts.number(JOINS_AFTER):
        return
    hosts, missing = [host for host, _ in waits.values()], _unmet(facts)
    is_late = seconds >= facts.number(JOINS_LATE)
    count = facts.run.process_count
    if missing:
        many = len(missing) > 1
        why = f"process{'es' * many} {ranges(missing)} of {count} {'were' if many else 'was'} not seen"
    elif missing is None:
        why = "not all processes have come"
    else:
        why = "all are there, but do not find each other"
    yield Finding(
        Severity.WARNING if is_late else Severity.INFO,
        0.9,
        f"{acting(hosts, 'has', 'have')} waited {seconds:.0f} s in jax.distributed.initialize: {why}",
        Subject(agent=hosts[0].agent, process_index=missing[0] if missing else None),
        about="joining",
        evidence=(
            Evidence("wait", seconds, "seconds", "stacks", facts.read_time()),
            Evidence("processes expected", count, source="jax.distributed"),
            Evidence("processes met", len(facts.present), source="connections", at=facts.read_time()),
        ),
        proof=Proof("stacks", row=hosts[0].agent),
        advice="Look whether the launcher started that process, and whether it reaches the address of the "
        "coordinator; all must name the same address and number of processes.",
    )


def _joins(host: Host) -> bool:
    frames = main_frames(host.stacks) if has_stacks_of_now(host) else ()
    return bool(frames) and frames[-1].file.endswith(_JOINS_IN)


def _unmet(facts: RunFacts) -> list[int] | None:
    """Return the numbers of the processes that were not met; None if they are unknown."""
    count, met = facts.run.process_count, {view.host.process_index for view in facts.run.hosts}
    if count is None or None in met:
        return None
    return [] if len(met) >= count else [index for index in range(count) if index not in met]


def _missing(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for processes that take part in the run, but have no agent."""
    hellos = [view.host.hello for view in facts.reporting if view.host.hello is not None]
    started = [hello.started_ms / 1000 for hello in hellos if hello.platform is not None]
    missing, within = _unmet(facts), facts.number(MEETS_WITHIN)
    if not missing or not started or facts.read_time() - min(started) < within:
        return
    many, count = len(missing) > 1, facts.run.process_count
    is_stalled = facts.run.id in facts.cluster.stalls
    yield Finding(
        Severity.WARNING if is_stalled else Severity.INFO,
        0.8,
        f"process{'es' * many} {ranges(missing)} of {count} {'were' if many else 'was'} never met: "
        f"{'their' if many else 'its'} figures are unknown",
        Subject(process_index=missing[0]),
        about="missing",
        evidence=(
            Evidence("processes expected", count, source="jax.process_count()", at=facts.read_time()),
            Evidence("processes met", len(facts.run.hosts), source="connections", at=facts.read_time()),
        ),
        proof=Proof("hosts"),
        advice="Call agent.start() in every process; `jaxtop ls` on its host says why no agent started.",
    )


def _unreached(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for processes whose addresses are known, but do not answer from here."""
    views = [view for view in facts.run.hosts if view.host.hello is None]
    hosts = [view.host for view in views if was_never_reached(view.host) or view.state is State.REFUSED]
    if not hosts:
        return
    yield Finding(
        Severity.INFO,
        1.0,
        f"{acting(hosts, 'was', 'were')} never reached from here: "
        f"{'their' if len(hosts) > 1 else 'its'} figures are unknown",
        Subject.of(hosts[0]),
        about="unreached",
        evidence=(Evidence("address", hosts[0].link.endpoint, source="roster", at=facts.read_time()),),
        proof=Proof("hosts", row=hosts[0].agent),
        advice="View the run from a machine that reaches that address, or attach through a tunnel.",
    )


def _idle(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for processes that launched nothing while the others train."""
    if facts.run.id in facts.cluster.stalls:
        return  # the stall names the process that did not launch
    idle, counts = [], []
    within = facts.number(MEETS_WITHIN)
    for view in facts.reporting:
        hello, launches = view.host.hello, view.host.launches
        if hello is None or hello.sources.get("launches", "on") != "on" or hello.platform is None:
            continue
        if launches:
            counts.append(max(launches.values()))
        elif facts.read_time() - hello.started_ms / 1000 >= within:
            idle.append(view.host)
    others = median_low(counts) if counts else 0
    if not idle or others < facts.number(IDLE_LAUNCHES):
        return
    yield Finding(
        Severity.WARNING,
        0.9,
        f"{acting(idle, 'has', 'have')} launched nothing; the others made {others:,} launches",
        Subject.of(idle[0]),
        about="idle",
        evidence=(
            Evidence("launches", 0, source="launch counters", at=facts.read_time()),
            Evidence("launches of the others", others, source="launch counters", at=facts.read_time()),
        ),
        proof=Proof("hosts", row=idle[0].agent, column="launches"),
        advice="Its devices are idle: its stacks [9] show what it does instead.",
    )


def _restarted(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for the processes that were started again lately."""
    found = []
    for view in facts.present:
        hello = view.host.hello
        if view.incarnation > 1 and hello is not None:
            ago = facts.read_time() - hello.started_ms / 1000
            if ago < RESTART_IS_NEWS:
                found.append((view.incarnation, ago, view.host))
    if not found:
        return
    starts, ago, worst = max(found, key=lambda each: (each[0], -each[1]))
    hosts = [host for _, _, host in found]
    most_starts, within = (facts.number(each) for each in (LOOP_STARTS, LOOP_WITHIN))
    is_loop = starts >= most_starts and ago < within
    times = "again" if starts == 2 else f"{'up to ' if len(hosts) > 1 else ''}{starts} times"
    yield Finding(
        Severity.WARNING if is_loop else Severity.INFO,
        1.0,
        f"{acting(hosts, 'was', 'were')} started {times}",
        Subject.of(worst),
        evidence=(
            Evidence("starts", starts, source="agents", at=facts.read_time()),
            Evidence("last start", facts.read_time() - ago, "timestamp", "agents", facts.read_time() - ago),
        ),
        proof=Proof("hosts", row=worst.agent, column="starts"),
        since=facts.read_time() - ago,
    )


RULES = (
    Rule(
        name="never_started",
        title="Never started",
        threshold="processes wait 10 s for others in jax.distributed.initialize (a warning from 30 s on); a "
        "process launched nothing in 60 s while others launched 100 times; a process of the run was not met, "
        "or not reached (a note)",
        rationale="A run does not begin until all its processes have joined. An idle process holds devices "
        "for nothing. A process without an agent reports nothing.",
        source="process counts of JAX, rosters, launch counters and stacks",
        advice="Look whether the launcher started all processes.",
        check=_never_started,
        holds_for=0.0,
        stays_for=0.0,  # a process that is lost after all must not be called unreached as well
        numbers=(JOINS_AFTER, JOINS_LATE, MEETS_WITHIN, IDLE_LAUNCHES),
    ),
    Rule(
        name="restarted",
        title="Restarted",
        threshold="a process was started again within the last hour; a warning from 3 starts on, if the last "
        "was within 10 minutes",
        rationale="Work since the last checkpoint was done twice; a process that restarts again and again "
        "does none.",
        source="agents with the same process index in one run",
        advice="Read the standard error of the earlier process; its black box, if it has one, shows its end.",
        check=_restarted,
        holds_for=0.0,
        numbers=(LOOP_STARTS, LOOP_WITHIN),
    ),
)
