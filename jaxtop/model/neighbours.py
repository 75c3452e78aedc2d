"""What the other processes of a run show of one that cannot be reached from here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.host import run_of
from jaxtop.model.hosts import host_views
from jaxtop.model.liveness import State, was_never_reached

if TYPE_CHECKING:
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState


def seen_by(cluster: ClusterState, host: Host, now: float) -> str:
    """Return what a live process of its run shows of a host that was never reached; empty if nothing.

    This says only what was reported: that the roster lists it, and whether the others go on, which they
    cannot for long if it takes part in their collectives and does not run.
    """
    if not was_never_reached(host) or host.peer is None:
        return ""
    live = (view.host for view in host_views(cluster, now) if view.state is State.LIVE)
    mate = next((each for each in live if run_of(each) == run_of(host)), None)
    if mate is None:
        return ""
    if mate.pulse.stall is not None or mate.pulse.lull is not None:
        goes_on = ", but launches nothing"
    else:
        goes_on = " and goes on" if mate.launches else ""
    return f"as seen by {mate.label}, which lists it at {host.peer.telemetry}{goes_on}"
