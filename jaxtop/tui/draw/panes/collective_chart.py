"""The timeline strips below the collectives: which hosts they show, and when they are computed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jaxtop.model.collectives.timeline import NO_TIMELINE, Timeline, reporting_agents, timeline_of
from jaxtop.tui.draw.panes.collective import by_wait

if TYPE_CHECKING:
    from jaxtop.model.collectives import CollectiveView
    from jaxtop.tui.core.moment import Moment

# A launch drawn in fewer characters would show no detail.
LAUNCH_WIDTH = 40


@dataclass(frozen=True)
class Chart:
    """The timeline strips and the inputs they were computed from, so that they are computed once a window."""

    inputs: tuple[Any, ...] = ()
    timeline: Timeline = NO_TIMELINE
    hidden: int = 0


def chart(moment: Moment, view: CollectiveView, room: tuple[int, int], last: Chart) -> Chart:
    """Return the strips of as many hosts as fit, or `last` if its inputs are the same."""
    cluster, (width, height) = moment.cluster, room
    windows = cluster.windows
    inputs = view.key, room, id(windows), windows.changes, cluster.layout_changes, view.straggler
    if inputs == last.inputs:
        return last
    agents = reporting_agents(cluster, view)
    chosen = chosen_hosts(
        moment, view, agents, max(1, height - 2 if len(agents) > height - 1 else height - 1)
    )
    met = [each.op for each in moment.collective_views if each.key[:3] == view.key[:3] and each.crosses_hosts]
    anchors = dict.fromkeys([view.op, *met] if view.crosses_hosts is not False else met)
    drawn = timeline_of(cluster, view, anchors, chosen, max(1, width // LAUNCH_WIDTH))
    return Chart(inputs, drawn, len(agents) - len(drawn.strips))


def chosen_hosts(moment: Moment, view: CollectiveView, agents: tuple[str, ...], most: int) -> tuple[str, ...]:
    """Return at most `most` of the agents, in their order.

    The straggler is chosen first, then the hosts of the slowest group, then the others.
    """
    owners = {device.id: device.agent for device in moment.device_views if device.run == view.run}
    slowest = view.groups[by_wait(view)[0]] if view.groups else ()
    wanted = [view.straggler.agent] if view.straggler is not None else []
    wanted += [owners[each] for each in slowest if each in owners]
    there = set(agents)
    first = dict.fromkeys(agent for agent in (*wanted, *agents) if agent in there)
    taken = set(list(first)[:most])
    return tuple(agent for agent in agents if agent in taken)
