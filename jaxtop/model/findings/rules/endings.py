"""Processes whose scripts ended: with an exception, or before the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base.names import shorten
from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.postmortem import postmortem_of
from jaxtop.model.findings.postmortem_words import facts as facts_of
from jaxtop.model.findings.rule import Rule, never
from jaxtop.model.findings.rules.liveness import CONSEQUENCES, stall_of
from jaxtop.model.findings.sentences import line_of
from jaxtop.model.liveness import State
from jaxtop.model.naming.sentences import acting, host_names
from jaxtop.model.stalls.case import was_still
from jaxtop.model.stalls.crashes import crashed, ended_at, ending, lost_by_crash
from jaxtop.model.stalls.stacks import line_text
from jaxtop.model.tuning import Number
from jaxtop.wire import SCRIPT_ENDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.postmortem import Postmortem
    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host

# Processes of a run end within some seconds of each other.
ENDS_WITHIN = Number("seconds", 15.0, "reported when it ended this many seconds ago")
LONGEST_TEXT = 110
# The lines on arrays in the evidence of a process that ran out of memory.
MAX_LINES = 3
NO_ROOM = (
    "It asked for more memory than was free. `i` and `jaxtop postmortem BOX` have its program and largest "
    "arrays with their lines: shard or donate them, or use a smaller batch."
)


def _crashed(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for all processes that ended with an exception; its subject is the first of them."""
    crashes = crashed(facts.run)
    if not crashes:
        return
    first = crashes[0]
    error, at = first.error, ended_at(first)
    assert error is not None
    line = None if error.place is None else line_text(error.place)
    postmortem = postmortem_of(facts.cluster, first, State.ENDED)
    alike = [host for host in crashes if _kind(host) == _kind(first)]
    others = [host for host in crashes if host not in alike]
    stall, agents = stall_of(facts), {host.agent for host in crashes}
    # A stall that began because a process had ended names none. One that began before is not a consequence.
    is_cause = stall is None or (set(stall.odd) <= agents and not was_still(first))
    yield Finding(
        Severity.CRITICAL,
        1.0,
        _crash_text(alike, others),
        Subject.of(first, source=line_of(line)),
        evidence=(
            Evidence("exception", error.type, source="script", at=at),
            Evidence("message", error.message or None, source="script", at=at),
            Evidence("line", line, source="script", at=at),
            Evidence("processes with it", len(alike), source="agents", at=facts.read_time()),
            Evidence("processes with another one", len(others), source="agents", at=facts.read_time()),
            *_memory_evidence(postmortem),
        ),
        advice=NO_ROOM if postmortem.shortage is not None else "",
        proof=Proof("hosts", row=first.agent, column="heard"),
        explains=(
            *(CONSEQUENCES if is_cause else ("straggler",)),
            *(("host_lost",) if lost_by_crash(facts.run, first) else ()),
        ),
        since=at,
    )


def _memory_evidence(postmortem: Postmortem) -> Iterator[Evidence]:
    """Yield what a process that ran out of memory asked for, and what it held; nothing of the others."""
    if postmortem.shortage is None:
        return
    asked, at = postmortem.shortage.asked, postmortem.at
    yield Evidence("asked for", asked and asked.bytes, "bytes", "exception", at)
    yield Evidence("free", postmortem.free and postmortem.free.bytes, "bytes", postmortem.free_source, at)
    yield Evidence("more than was free", postmortem.missing and postmortem.missing.bytes, "bytes", "", at)
    program = postmortem.program
    yield Evidence("program", program and f"{program.program.name}: {program.basis}", source="agent", at=at)
    for fact in facts_of(postmortem):
        if fact.name in ("arrays", "grew"):
            for line in fact.lines[: 1 + MAX_LINES]:
                yield Evidence(fact.name, line, source="arrays", at=at)


def _kind(host: Host) -> object:
    return host.error and (host.error.type, host.error.place)


def _crash_text(alike: list[Host], others: list[Host]) -> str:
    """Return who ended with which exception, with as much of its message as there is room for."""
    bye, count = alike[0].bye, alike[0].process_count
    assert bye is not None
    rest = f", then {host_names(others)} with another" if others else ""
    return shorten(f"{host_names(alike)} {ending(bye, count)}", LONGEST_TEXT - len(rest)) + rest


def _ended_early(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for processes whose scripts ended without an exception while others still run."""
    latest = facts.read_time() - facts.number(ENDS_WITHIN)
    ended = [
        view.host
        for view in facts.run.hosts
        if (bye := view.host.bye) is not None and bye.reason == SCRIPT_ENDED and bye.error is None
    ]
    ended = [host for host in ended if host.heard_at is not None and host.heard_at <= latest]
    rest = [view.host for view in facts.reporting]
    if not ended or not rest:
        return
    ended.sort(key=ended_at)
    first, stall = ended[0], stall_of(facts)
    yield Finding(
        Severity.INFO if stall is None else Severity(stall.severity),
        0.8,
        f"{acting(ended, 'has', 'have')} ended, but {acting(rest, 'still runs', 'still run')}",
        Subject.of(first),
        evidence=(
            Evidence("ended", first.heard_at, "timestamp", "agent", first.heard_at),
            Evidence("steps that it made", first.steps.last if first.steps else None, source="script"),
        ),
        proof=Proof("hosts", row=first.agent, column="heard"),
        explains=() if stall is None else CONSEQUENCES,
        since=ended_at(first),
    )


RULES = (
    Rule(
        name="crashed",
        applies_after_exit=True,
        title="Crashed",
        threshold="the script of a process ended with an exception that it did not catch; an interrupt by "
        "the user is none",
        rationale="The others of its run wait for it in their next collective, or fail after it.",
        source="the last message of its agent, which has the exception that Python prints at the end; "
        "viewers and black boxes have it, and for a day the machine itself. A script that ends with "
        "`sys.exit(1)` or `os._exit` leaves none",
        advice="Its traceback is on its standard error. Correct the line, and restart from the checkpoint.",
        check=_crashed,
        holds_for=0.0,
        stays_for=0.0,
        explains=CONSEQUENCES,
        makes_event=never,
    ),
    Rule(
        name="ended_early",
        applies_after_exit=True,
        title="Ended early",
        threshold="the script of a process ended 15 s ago, and others of its run still run; a note while "
        "they make progress",
        rationale="The others wait for a script that is done in their next collective.",
        source="the last message of its agent",
        advice="Look why its loop was shorter: its share of the data, its exit status, its standard error.",
        check=_ended_early,
        holds_for=0.0,
        stays_for=0.0,
        explains=CONSEQUENCES,
        numbers=(ENDS_WITHIN,),
    ),
)
