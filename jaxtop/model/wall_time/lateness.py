"""The gaps of the processes of each run, and the time that the others wait for late processes.

Findings and the parts of a step both read these values, so that they agree.
"""

from __future__ import annotations

from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.collectives.views import collective_views
from jaxtop.model.hosts import runs
from jaxtop.model.steps.views import pace_of_run
from jaxtop.model.wall_time.gaps import PAUSE_SHARE, gap_of, is_close, pause_of
from jaxtop.model.wall_time.late_scripts import (
    LATE_SCRIPT_MS,
    are_apart,
    in_present_rhythm,
    late_script_gaps,
    perhaps_late,
)
from jaxtop.model.wall_time.parts import own_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.model.collectives.views import CollectiveView
    from jaxtop.model.host import Host
    from jaxtop.model.hosts import Run
    from jaxtop.model.liveness import HostView
    from jaxtop.model.state import ClusterState
    from jaxtop.model.wall_time.gaps import Gap

# The fewest launches that show how long the others wait for a process that is late by its script.
MIN_SAMPLES = 3
# A late process comes last where it waits for at most this share of the longest wait.
LAST_WAIT_SHARE = 0.2


class Lateness(NamedTuple):
    """The gaps of a run's processes, the processes that are late by their scripts, and the cost of each.

    Processes in `perhaps` are late if their devices do not compute meanwhile: nothing measures that.
    `costs` has the share of wall time for which the others wait for a process, by agent.
    """

    gaps: tuple[Gap, ...] = ()
    scripts: tuple[Gap, ...] = ()
    perhaps: tuple[Gap, ...] = ()
    costs: Mapping[str, float] = MappingProxyType({})

    def wait_of(self, agent: str) -> float | None:
        """Return the share of wall time for which a process waits for late ones; None if it is not known.

        Only windows show the wait of a late process itself.
        """
        return None if agent in self.costs else max(self.costs.values(), default=None)


NO_LATENESS = Lateness()


def lateness_by_run(cluster: ClusterState, now: float) -> Mapping[str, Lateness]:
    """Return who is late in each run, by the id of the run."""

    def derive() -> dict[str, Lateness]:
        return {run.id: _lateness_of_run(cluster, run, now) for run in runs(cluster, now)}

    return cluster.derived.get("lateness at a time", (cluster.changes, now), derive)


def reporting(run: Run) -> list[HostView]:
    """Return the hosts of a run whose figures are current."""
    return [view for view in run.hosts if not view.state.is_silent and view.current.pulse_at is not None]


def _lateness_of_run(cluster: ClusterState, run: Run, now: float) -> Lateness:
    own, views = own_parts(cluster, now), reporting(run)
    found = ((host, own.get(host.agent)) for host in in_present_rhythm([view.current for view in views]))
    gaps = [gap for host, each in found if (gap := gap_of(host, each and each.parts)) is not None]
    present = sum(not view.state.has_exited for view in run.hosts)
    scripts = late_script_gaps(gaps, present, cluster.tuning.value_of(LATE_SCRIPT_MS))
    costs = _waits_by_collectives(cluster, run, views, scripts, now)
    costs.update(_waits_by_pauses(gaps, present, cluster.tuning.value_of(PAUSE_SHARE)))
    costs.update(_waits_by_scripts(scripts, gaps, costs))
    return Lateness(tuple(gaps), tuple(scripts), tuple(perhaps_late(gaps, present)), costs)


def _waits_by_collectives(
    cluster: ClusterState, run: Run, views: Sequence[HostView], scripts: Sequence[Gap], now: float
) -> dict[str, float]:
    """Return the longest wait for each process that comes last in a collective, as a share of wall time.

    One that is late by its script needs no verdict on its collectives: a few launches show how late.
    """
    pace, found = pace_of_run(view.current for view in views), dict[str, float]()
    if not pace:
        return found
    for view in collective_views(cluster, now):
        if view.run != run.id or not view.is_current:
            continue
        if view.straggler is not None:
            _keep_longest(found, view.straggler.agent, view.straggler.late_us / 1e6 * pace)
        elif view.wait_us and view.samples >= MIN_SAMPLES and view.is_judged:
            for each in scripts:
                if _comes_last(each.host, view):
                    _keep_longest(found, each.host.agent, view.wait_us / 1e6 * pace)
    return found


def _comes_last(host: Host, view: CollectiveView) -> bool:
    own = [view.waits_us[device.id] for device in host.devices if device.id in view.waits_us]
    return bool(own) and max(own) <= LAST_WAIT_SHARE * (view.wait_us or 0)


def _keep_longest(found: dict[str, float], agent: str, share: float) -> None:
    found[agent] = max(found.get(agent, 0.0), min(1.0, share))


def _waits_by_scripts(
    late: Sequence[Gap], gaps: Sequence[Gap], measured: Mapping[str, float]
) -> dict[str, float]:
    """Return how long the others wait for each process that is late by its script.

    It is the part of its gap for which it is in its script for longer than the others, who are in theirs for
    a while, too. Windows measure the wait better, unless they are from before the process was late.
    """
    agents = {each.host.agent for each in late}
    usual = median([each.script for each in gaps if each.host.agent not in agents] or [0.0])
    excess = {each.host.agent: max(0.0, min(each.share, each.script - usual)) for each in late}
    return {
        agent: measured[agent] if is_close(measured.get(agent, 0.0), share) else share
        for agent, share in excess.items()
    }


def _waits_by_pauses(gaps: Sequence[Gap], present: int, least: float) -> dict[str, float]:
    """Return the pauses of the few processes for which all others wait."""
    found = {each.host.agent: pause.share for each in gaps if (pause := pause_of(each, least)) is not None}
    return found if found and 2 * len(found) <= present and not are_apart(gaps) else {}
