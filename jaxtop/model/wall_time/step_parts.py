"""The time of a step by part, for each process and for a run: own parts, and waits for late processes.

These are the figures of the panels and the exports. Findings rest on the same gaps and waits (`lateness.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.host import run_of
from jaxtop.model.hosts import host_views
from jaxtop.model.naming.families import main_run
from jaxtop.model.shares import RunParts
from jaxtop.model.wall_time.gaps import launches_of, lost_to_launches
from jaxtop.model.wall_time.lateness import NO_LATENESS, lateness_by_run
from jaxtop.model.wall_time.launch_times import has_current_windows
from jaxtop.model.wall_time.parts import mean_of, own_parts, with_lateness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.model.liveness import HostView
    from jaxtop.model.shares import Parts
    from jaxtop.model.state import ClusterState
    from jaxtop.model.wall_time.gaps import Gap


def too_little_of(cluster: ClusterState, now: float) -> str:
    """Return why too little is measured to call the runs healthy; empty if enough is, or no part is."""
    run = main_run(cluster, now)
    found = run_parts(cluster, now, None if run is None else run.id)
    if found is None or found.is_enough:
        return ""
    return f"not enough measured: {found.parts.unknown:.0%} of a step is unknown"


def parts_of_hosts(cluster: ClusterState, now: float) -> Mapping[str, Parts]:
    """Return where the time of each host goes, by agent; hosts of which too little is known are left out."""

    def derive() -> dict[str, Parts]:
        own, late = own_parts(cluster, now), lateness_by_run(cluster, now)
        gaps = {each.host.agent: each for run in late.values() for each in run.gaps}
        found = {}
        for view in host_views(cluster, now):
            agent = view.host.agent
            gap, mine = gaps.get(agent), own.get(agent)
            wait = late.get(run_of(view.host), NO_LATENESS).wait_of(agent)
            idle = None if gap is None else _idle(gap)
            if view.state.is_silent or (mine is None and (gap is None or (idle is None and wait is None))):
                continue
            found[agent] = with_lateness(mine, idle or 0.0, gap.core_share if gap else 0.0, wait)
        return found

    return cluster.derived.get("parts at a time", (cluster.changes, now), derive)


def _idle(gap: Gap) -> float | None:
    """Return the share of wall time in which the script keeps the devices idle; None if nothing shows it."""
    if launches_of(gap):
        return max(gap.whole, lost_to_launches(gap))
    return None if gap.uncovered is None else gap.whole


def run_parts(cluster: ClusterState, now: float, run: str | None = None) -> RunParts | None:
    """Return where a step of a run goes, or of all runs together; None if no process is measured.

    Processes without windows since the time of a step changed count only where there are no others.
    """
    found, late = parts_of_hosts(cluster, now), lateness_by_run(cluster, now)
    accused = {agent for name, each in late.items() if run in (None, name) for agent in each.costs}
    views = [
        view
        for view in host_views(cluster, now)
        if view.host.agent in found and run in (None, run_of(view.host))
    ]
    others = [view for view in views if view.host.agent not in accused] or views
    shown = [view for view in others if _is_current(view, found)] or others
    mean = mean_of(found[view.host.agent] for view in shown)
    return None if mean is None else RunParts(mean, len(shown), tuple(sorted(accused & found.keys())))


def _is_current(view: HostView, found: Mapping[str, Parts]) -> bool:
    return found[view.host.agent].at is not None and has_current_windows(view.current)
