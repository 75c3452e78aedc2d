"""What a window of an agent changes: launches are joined with those of other agents, then judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.model.collectives.joining import join
from jaxtop.model.collectives.verdict import LATE_MS, LATE_MS_ON_CPU, judge
from jaxtop.model.collectives.words import changes_in_words
from jaxtop.model.state import LoggedEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.collectives.joining import Joined
    from jaxtop.model.collectives.verdict import VerdictChange
    from jaxtop.model.keyframe import Message
    from jaxtop.model.state import ClusterState


def reduce(state: ClusterState, agent: str, message: Message, at: float) -> list[LoggedEvent]:
    """Join a window with those of the other hosts; return an event for each verdict that it changed."""
    if not isinstance(message, wire.Window):
        return []
    joined = join(state, state.hosts[agent], message)
    changes = [change for each in joined for change in _judged(state, each)]
    return [
        LoggedEvent(at, severity, "straggler", about, text)
        for severity, about, text in changes_in_words(state, changes)
    ]


def _judged(state: ClusterState, joined: Joined) -> Iterator[VerdictChange]:
    """Judge the collectives of a program again; yield the verdicts that have changed."""
    key, layout, windows, ops = joined
    least = LATE_MS_ON_CPU if layout is not None and layout.is_cpu else LATE_MS
    at_least_us = state.tuning.value("straggler", least) * 1000
    for op in sorted(ops):
        yield from judge(key, windows, op, at_least_us)
