"""The wait of each device in a step: measured by windows, or derived for a process that became late since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.collectives.sums import waits_by_device
from jaxtop.model.hosts import runs
from jaxtop.model.steps.views import wall_time_of_run
from jaxtop.model.wall_time.lateness import NO_LATENESS, lateness_by_run, reporting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.model.state import ClusterState


# A wait in windows is that of the finding if it differs by at most this part of it.
WAIT_TOLERANCE = 0.1


def step_waits(cluster: ClusterState, now: float) -> Mapping[tuple[str, int], int]:
    """Return the microseconds for which each device waits in a step, by run and id.

    The devices of a process that waits for a late one have the wait that its finding tells, unless windows
    measured about the same: windows may be from before the other was late.
    """
    measured, late = waits_by_device(cluster, now), lateness_by_run(cluster, now)
    if not any(each.costs for each in late.values()):
        return measured

    def derive() -> dict[tuple[str, int], int]:
        found = dict(measured)
        for run in runs(cluster, now):
            views, of_run = reporting(run), late.get(run.id, NO_LATENESS)
            wall_s = wall_time_of_run(view.current for view in views) or 0.0
            for view in views:
                wait_us = round((of_run.wait_of(view.host.agent) or 0.0) * wall_s * 1e6)
                for key in [(run.id, device.id) for device in view.host.devices] if wait_us else ():
                    if abs(found.get(key, 0) - wait_us) > WAIT_TOLERANCE * wait_us:
                        found[key] = wait_us
        return found

    return cluster.derived.get("waits of devices", (cluster.changes, now), derive)
