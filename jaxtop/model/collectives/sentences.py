"""The sentences about stragglers in collectives, for events and findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base.units import in_ms
from jaxtop.model.collectives.layout import layouts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from jaxtop.model.collectives.verdict import VerdictChange
    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import Straggler

# One cause may appear in very many collectives at once.
MAX_TEXTS = 4


def lateness_in_words(who: str, late_us: int, where: str, of_step: str = "") -> str:
    """Return who is late, where, and what that costs; `of_step` relates that to the time of a step."""
    return f"{who} is late: the others wait {in_ms(late_us / 1000)}{of_step} for it in {where}"


def op_with_axes(op: str, axes: Collection[str] | None) -> str:
    """Return a collective with its axes, if they are known."""
    return op + (f" over {', '.join(axes)}" if axes else "")


def changes_in_words(state: ClusterState, listed: Sequence[VerdictChange]) -> Iterator[tuple[str, str, str]]:
    """Yield the severity, the agent and the text of each change; after some, only their number."""
    for change in listed[:MAX_TEXTS]:
        where = _where(change, state)
        if change.now is not None:
            text = lateness_in_words(_straggler_text(change.now, state), change.now.late_us, where)
            text += f"; it comes last in {change.now.share:.0%} of samples"
            if change.before is not None:
                text += f"; before, {_straggler_text(change.before, state)} was late"
            yield "warning", change.now.agent, text
        elif change.before is not None:
            yield (
                "info",
                change.before.agent,
                f"{_straggler_text(change.before, state)} is no longer late in {where}",
            )
    rest = listed[MAX_TEXTS:]
    if rest and (about := rest[0].now or rest[0].before):
        yield (
            "info",
            about.agent,
            f"{len(rest)} more collectives have a different straggler, or none",
        )


def _where(change: VerdictChange, state: ClusterState) -> str:
    layout = layouts(state).get(change.key)
    grouped = layout.groups_of(change.op) if layout else None
    return op_with_axes(f"{change.op} of {change.key[1]}", grouped and grouped.axes and grouped.axes.names)


def _straggler_text(late: Straggler, state: ClusterState) -> str:
    host = state.hosts.get(late.agent)
    who = host.label if host else late.agent
    return who if late.device_id is None else f"device {late.device_id} of {who}"
