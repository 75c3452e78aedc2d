"""Who comes last in each collective, as each window shows it, and the events when that changes."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.model.collectives.joining import Joined, join
from jaxtop.model.collectives.layout import layouts
from jaxtop.model.collectives.timing import arrivals_of
from jaxtop.model.collectives.verdict import LATE_MS, LATE_MS_ON_CPU, MISSING, STAYS, verdict
from jaxtop.model.state import LoggedEvent
from jaxtop.model.windows import Late

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model.keyframe import Message
    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import ProgramKey

# One cause may appear in very many collectives at once.
MOST_TEXTS = 4


class VerdictChange(NamedTuple):
    """The unit that came last in a collective before, and the one that does now; None where none does."""

    key: ProgramKey
    op: str
    before: Late | None
    now: Late | None


def reduce(state: ClusterState, agent: str, message: Message, at: float) -> list[LoggedEvent]:
    """Join a window with those of the other hosts; return an event for each verdict that it changed."""
    if not isinstance(message, wire.Window):
        return []
    changes = [
        change
        for joined in join(state, state.hosts[agent], message)
        for op in sorted(joined.ops)
        for change in _judge(state, joined, op)
    ]
    return [
        LoggedEvent(at, severity, "straggler", about, text)
        for severity, about, text in _texts(state, changes)
    ]


def _judge(state: ClusterState, joined: Joined, op: str) -> list[VerdictChange]:
    """Decide again who comes last in a collective; return what has changed."""
    key, layout, windows, _ = joined
    timings = windows.timings[op]
    grouped = timings[-1].grouped
    before = windows.late.get(op, ())
    if grouped is None or layout is None:
        windows.late.pop(op, None)
        return [VerdictChange(key, op, each, None) for each in before]
    least = LATE_MS_ON_CPU if layout.is_cpu else LATE_MS
    at_least_us = state.tuning.value("straggler", least) * 1000
    of_unit = {each.unit: each for each in before}
    lately = [each for each in timings if each.window == timings[-1].window]
    found = []
    for number, team in enumerate(grouped.teams):
        if 2 * sum(_widest(each.arrivals[number]) >= at_least_us * STAYS / 2 for each in lately) < len(
            lately
        ):
            continue  # most teams are never late, so this check saves most of the work
        named = next((i for i, unit in enumerate(team.units) if unit in of_unit), None)
        found_here = verdict(arrivals_of(timings, number), named, at_least_us)
        if found_here is not None:
            found.append(Late(number, team.units[found_here.unit], found_here))
    windows.late[op] = tuple(found)
    now = {each.unit: each for each in found}
    gone = [each for unit, each in of_unit.items() if unit not in now]
    come = [each for unit, each in now.items() if unit not in of_unit]
    pairs = zip_longest(gone, come)  # a verdict that ended and a new one are reported together
    return [VerdictChange(key, op, was, each) for was, each in pairs]


def _widest(waits: Sequence[int]) -> int:
    most = max(waits)
    return most if most != MISSING else max((each for each in waits if each != MISSING), default=0)


def _texts(state: ClusterState, listed: Sequence[VerdictChange]) -> Iterator[tuple[str, str, str]]:
    """Yield the severity, the agent and the text of each change."""
    for change in listed[:MOST_TEXTS]:
        where = _where(change, state)
        if change.now is not None:
            found = change.now.verdict
            text = (
                f"{_who(change.now, state)} is the last to reach {where} in {found.share:.0%} of samples: "
                f"others wait {_time(found.late_us)}"
            )
            if change.before is not None:
                text += f"; before, {_who(change.before, state)} did"
            yield "warning", change.now.unit.agent, text
        elif change.before is not None:
            text = f"{_who(change.before, state)} is no longer the last to reach {where}"
            yield "info", change.before.unit.agent, text
    rest = listed[MOST_TEXTS:]
    if rest and (about := rest[0].now or rest[0].before):
        yield (
            "info",
            about.unit.agent,
            f"{len(rest)} more collectives have a different straggler, or none",
        )


def _where(change: VerdictChange, state: ClusterState) -> str:
    layout = layouts(state).get(change.key)
    grouped = layout.groups_of(change.op) if layout else None
    axes = f" ({', '.join(grouped.axes.names)})" if grouped and grouped.axes and grouped.axes.names else ""
    return f"{change.op} of {change.key[1]}{axes}"


def _who(late: Late, state: ClusterState) -> str:
    host = state.hosts.get(late.unit.agent)
    who = host.label if host else late.unit.agent
    return who if late.unit.device_id is None else f"device {late.unit.device_id} of {who}"


def _time(us: int) -> str:
    return f"{us / 1000:.0f} ms" if us >= 9_950 else f"{us / 1000:.1f} ms"
