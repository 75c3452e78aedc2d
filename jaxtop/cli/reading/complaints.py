"""Notes on figures that a command could not get: missing processes, and the reasons."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jaxtop.base.clock import steady
from jaxtop.cli.text.words import legible
from jaxtop.model import Cluster, State, host_views, names_of_runs, run_of, runs
from jaxtop.model.host import REFUSES_KEY
from jaxtop.model.hosts import seen_by
from jaxtop.model.liveness import was_never_reached
from jaxtop.store import runfiles

if TYPE_CHECKING:
    from jaxtop.model import Host, HostView, Run
    from jaxtop.sources import Source

# JAX and its devices need up to this many seconds to end.
LONG_EXIT_S = 5.0
# The most processes for which a line says why they are not live.
MAX_REASONS = 5
_IS = {
    State.DIED: "has died",
    State.ENDED: "has ended",
    State.REFUSED: REFUSES_KEY,
    State.UNREACHABLE: "is not reachable from here",
}


def complaints(cluster: Cluster, source: Source, now: float) -> list[str]:
    """Return the problems that the figures of the document do not show clearly, one per line."""
    lines = _not_live(cluster, now)
    lines += [
        f"only {len(run.hosts)} of the {run.process_count} processes of {run.name or run.id} have been found"
        for run in incomplete(cluster)
    ]
    lines += _unmet(cluster)
    rejected = source.rejected + cluster.rejected
    lines += [f"{count} messages were skipped: {what}" for what, count in rejected.items()]
    return lines + source.notes


def why_none(cluster: Cluster, now: float) -> str:
    """Return in one line why no process is live; empty if nothing is known of any."""
    lines = [*_not_live(cluster, now), *_unmet(cluster)]
    more = len(lines) - MAX_REASONS
    return legible("; ".join(lines[:MAX_REASONS])) + (f"; and {more} more" if more > 0 else "")


def _not_live(cluster: Cluster, now: float) -> list[str]:
    names = names_of_runs(cluster, now)

    def of_run(host: Host) -> str:
        return f"{names[run_of(host)]}: " if len(names) > 1 else ""

    return [
        f"{of_run(view.host)}{view.host.label} {_IS.get(view.state, f'is {view.state}')}"
        f"{_way_out(view.host)}{_lingers(view)}{_seen(cluster, view.host, now)}"
        for view in host_views(cluster, now)
        if view.state is not State.LIVE
    ]


def _lingers(view: HostView) -> str:
    """Return that a process of this machine still exits, if its script has ended and it is still there."""
    hello = view.host.hello
    if hello is None or view.state is not State.ENDED or not runfiles.still_exits(hello):
        return ""
    waits = "jax.distributed waits there for the others, or " if (hello.process_count or 1) > 1 else ""
    bye = view.host.bye
    is_long = bye is not None and time.time() - bye.at_ms / 1000 >= LONG_EXIT_S
    why = f": {waits}a thread or child of the script does not end" if is_long else ""
    return f", but its process {hello.pid} is still in its exit{why}"


def _unmet(cluster: Cluster) -> list[str]:
    return [f"{unmet.endpoint}: {unmet.why}" for unmet in cluster.unmet.values()]


def _way_out(host: Host) -> str:
    """Return what to do if a tunnel reaches an agent, but not its telemetry port."""
    if not was_never_reached(host) or host.peer is None or host.link.endpoint == host.peer.telemetry:
        return ""
    port = host.peer.telemetry.rpartition(":")[2]
    way = f"also forward port {port} to the same number, or to another with --map"
    return f": {host.link.endpoint} is not reachable; {way}"


def _seen(cluster: Cluster, host: Host, now: float) -> str:
    return f"; {seen}" if (seen := seen_by(cluster, host, now)) else ""


def incomplete(cluster: Cluster) -> list[Run]:
    """Return the runs with missing processes, whose agents are late or were never started."""
    return [run for run in runs(cluster, steady()) if len(run.hosts) < (run.process_count or 0)]
