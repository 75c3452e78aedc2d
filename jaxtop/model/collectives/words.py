"""The texts of verdicts that appeared, moved or were withdrawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.collectives.layout import layouts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtop.model.collectives.instances import Named, VerdictChange
    from jaxtop.model.fold import Cluster

# One cause may appear in very many collectives at once.
MOST_WORDS = 4


def of_changes(changes: Iterable[VerdictChange], cluster: Cluster) -> Iterator[tuple[str, str, str]]:
    """Yield the severity, the agent and the text of each change."""
    listed = list(changes)
    for change in listed[:MOST_WORDS]:
        where = _where(change, cluster)
        if change.now is not None:
            found = change.now.verdict
            text = (
                f"{_who(change.now, cluster)} comes last to {where} in {found.share:.0%}: "
                f"others wait {_time(found.late_us)}"
            )
            if change.before is not None:
                text += f"; before, {_who(change.before, cluster)} did"
            yield "warning", change.now.unit.agent, text
        elif change.before is not None:
            text = f"{_who(change.before, cluster)} comes last to {where} no more"
            yield "info", change.before.unit.agent, text
    rest = listed[MOST_WORDS:]
    if rest and (about := rest[0].now or rest[0].before):
        yield (
            "info",
            about.unit.agent,
            f"{len(rest)} more collectives have somebody else, or nobody, who comes last",
        )


def _where(change: VerdictChange, cluster: Cluster) -> str:
    layout = layouts(cluster).get(change.key)
    grouped = layout.groups_of(change.op) if layout else None
    axes = f" ({', '.join(grouped.axes.names)})" if grouped and grouped.axes and grouped.axes.names else ""
    return f"{change.op} of {change.key[1]}{axes}"


def _who(named: Named, cluster: Cluster) -> str:
    host = cluster.hosts.get(named.unit.agent)
    who = host.label if host else named.unit.agent
    return who if named.unit.device_id is None else f"device {named.unit.device_id} of {who}"


def _time(us: int) -> str:
    return f"{us / 1000:.0f} ms" if us >= 10_000 else f"{us / 1000:.1f} ms"
