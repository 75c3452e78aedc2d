"""Stalls as events: reported once, again when more is known, and when the run resumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.model.host import run_of, still_of
from jaxtop.model.hosts import newest_hosts
from jaxtop.model.liveness import has_exited
from jaxtop.model.stalls.diagnosis import diagnose, has_resumed
from jaxtop.model.state import Certainty, LoggedEvent, RunStall

if TYPE_CHECKING:
    from jaxtop.model.keyframe import Message
    from jaxtop.model.state import ClusterState, Diagnosis

# A run is checked at most once in this many seconds, however many hosts report.
CHECK_EVERY = 1.0
# The hosts of a run detect a stall within a few seconds of each other, and their stacks arrive later.
SETTLES_WITHIN = dict(zip(Certainty, (5.0, 5.0, 4.0, 2.0, 2.0), strict=True))
# A changed cause is reported again, at most once in this many seconds.
AGAIN_AFTER = 10.0


def reduce(state: ClusterState, agent: str, message: Message, at: float) -> list[LoggedEvent]:
    """Return events when the agent's run stalls, when more is known of the cause, and when it resumes."""
    host = state.hosts.get(agent)
    if host is None:
        return []
    run = run_of(host)
    stall = state.stalls.get(run)
    if stall is None and still_of(host) is None:
        return []
    if stall is not None and isinstance(message, wire.Bye) and _has_finished(state, run):
        del state.stalls[run]
        return []
    checked_at = stall.checked_at if stall is not None else state.stall_checks.get(run, at - CHECK_EVERY)
    if 0 <= at - checked_at < CHECK_EVERY:
        return []
    state.stall_checks[run] = at
    diagnosis = diagnose(state, run, at)
    if diagnosis is not None:
        stall = stall or RunStall(at, at)
        is_news = _is_news(stall, diagnosis, at)
        reported, reported_at = (diagnosis, at) if is_news else (stall.reported, stall.reported_at)
        state.stalls[run] = RunStall(stall.since, at, reported, reported_at)
        return (
            [LoggedEvent(at, diagnosis.severity, "stalled", diagnosis.about, diagnosis.text)]
            if is_news
            else []
        )
    return [] if stall is None else _resumed(state, run, agent, at)


def _resumed(state: ClusterState, run: str, agent: str, at: float) -> list[LoggedEvent]:
    """End the stall of a run if it launches again; return that as an event if the stall was reported."""
    if not has_resumed(state, run, at):
        return []
    reported = state.stalls.pop(run).reported
    if reported is None:
        return []
    text = f"launches resumed after {at - reported.began:.0f} s without a launch"
    return [LoggedEvent(at, "info", "goes on", agent, text)]


def _has_finished(state: ClusterState, run: str) -> bool:
    """Return whether all scripts of a run have ended: what looked like a stall was none, or is over."""
    if not all(has_exited(host) for host in state.hosts.values() if run_of(host) == run):
        return False  # this check is cheap: many processes may end at once
    byes = [host.bye for host in newest_hosts(state) if run_of(host) == run]
    return all(
        bye is not None and bye.error is None and bye.status != wire.INTERRUPTED and bye.reason != wire.STUCK
        for bye in byes
    )


def _is_news(stall: RunStall, found: Diagnosis, at: float) -> bool:
    before = stall.reported
    if at - stall.since < SETTLES_WITHIN[found.certainty]:
        return False
    if before is None or found.certainty > before.certainty:
        return True
    cause, cause_before = (found.odd, found.is_moving), (before.odd, before.is_moving)
    has_changed = found.certainty == before.certainty and cause != cause_before
    return has_changed and at - stall.reported_at >= AGAIN_AFTER
