"""The texts of the events about stragglers in collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.collectives.layout import layouts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model.collectives.verdict import VerdictChange
    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import LateUnit

# One cause may appear in very many collectives at once.
MOST_TEXTS = 4


def changes_in_words(state: ClusterState, listed: Sequence[VerdictChange]) -> Iterator[tuple[str, str, str]]:
    """Yield the severity, the agent and the text of each change; after some, only their number."""
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


def _who(late: LateUnit, state: ClusterState) -> str:
    host = state.hosts.get(late.unit.agent)
    who = host.label if host else late.unit.agent
    return who if late.unit.device_id is None else f"device {late.unit.device_id} of {who}"


def _time(us: int) -> str:
    return f"{us / 1000:.0f} ms" if us >= 9_950 else f"{us / 1000:.1f} ms"
