"""The runs and their hosts, in order and in their states."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.model.host import run_of
from jaxtop.model.liveness import HostView, State, has_exited, state_of, was_never_reached

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState


def interval(cluster: ClusterState) -> float:
    """Return the shortest pulse interval of any host, in seconds."""
    hellos = [host.hello for host in cluster.hosts.values() if host.hello]
    return min((hello.interval_ms for hello in hellos), default=1000) / 1000


@dataclass(frozen=True)
class Run:
    """A training job with one or more processes."""

    id: str
    name: str | None
    process_count: int | None
    hosts: tuple[HostView, ...]

    @property
    def has_ended(self) -> bool:
        return all(view.state.has_exited for view in self.hosts)


class RunMembers(NamedTuple):
    """The processes of a run in order: the newest agent of each, and how many times it was started."""

    id: str
    name: str | None
    process_count: int | None
    members: tuple[tuple[Host, int], ...]


def runs(cluster: ClusterState, now: float) -> list[Run]:
    """Return all runs by name and id, with their processes in order and in their states at this time."""
    return cluster.derived.get("runs at a time", (cluster.changes, now), lambda: _runs(cluster, now))


def _runs(cluster: ClusterState, now: float) -> list[Run]:
    return [
        Run(*each[:3], tuple([_view(cluster, host, starts, now) for host, starts in each.members]))
        for each in run_members(cluster)
    ]


def _view(cluster: ClusterState, host: Host, starts: int, now: float) -> HostView:
    state = state_of(host, now)
    return cluster.derived.of(
        "host views", host.agent, cluster.hosts, (host, starts, state), lambda: HostView(host, starts, state)
    )


def run_members(cluster: ClusterState) -> list[RunMembers]:
    """Return the processes of all runs, without their states."""
    return cluster.derived.get("runs", (cluster.changes,), lambda: _run_members(cluster))


def _run_members(cluster: ClusterState) -> list[RunMembers]:
    found = []
    for run_id, members in _members(cluster).items():
        newest = tuple(_newest_of_each_process(sorted(members, key=_order), cluster.dropped.starts))
        names = [host.run_name for host, _ in newest if host.run_name]
        counts = [host.process_count for host, _ in newest if host.process_count]
        found.append(RunMembers(run_id, names[0] if names else None, max(counts, default=None), newest))
    return sorted(found, key=lambda run: (run.name or "", run.id))


def _members(cluster: ClusterState) -> dict[str, list[Host]]:
    """Return the hosts by run. A host without a run id joins a run of its name that lacks a process."""
    found: dict[str, list[Host]] = {}
    by_name: dict[str | None, dict[str, list[Host]]] = {}
    for host in sorted(cluster.hosts.values(), key=lambda host: (host.run is None, _order(host))):
        name, run = host.run_name, run_of(host)
        if host.run is None and name is not None and not has_exited(host):
            alike = by_name.get(name, {}).items()
            run = next((each for each, those in alike if _lack(those, host)), run)
        members = found.setdefault(run, [])
        members.append(host)
        if not has_exited(host):
            by_name.setdefault(name, {})[run] = members
    return found


def _lack(members: list[Host], host: Host) -> bool:
    """Return whether a run has room for this host; processes that have exited free their places."""
    count = members[0].process_count or host.process_count
    if count is None and any(_are_of_one_family(each, host) for each in members):
        return False  # workers that their parent has started, each with devices of its own
    index = host.process_index
    there = [each for each in members if not has_exited(each)]
    is_free = index is None or all(each.process_index != index for each in there)
    return is_free and (count is None or len(there) < count)


def _are_of_one_family(one: Host, other: Host) -> bool:
    families = [host.hello.family for host in (one, other) if host.hello is not None]
    return len(families) == 2 and families[0] is not None and families[0] == families[1]


def host_views(cluster: ClusterState, now: float) -> list[HostView]:
    """Return the hosts of all runs, in order, in their states at this time."""
    return [view for run in runs(cluster, now) for view in run.hosts]


def newest_hosts(cluster: ClusterState) -> list[Host]:
    """Return the hosts of all runs, in order; of a process that was started again, the newest."""
    return [host for run in run_members(cluster) for host, _ in run.members]


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


def _order(host: Host) -> tuple[int, int]:
    index = host.process_index
    started = host.hello.started_ms if host.hello else 0
    return (index if index is not None else 1 << 30, started)


def _newest_of_each_process(members: list[Host], dropped: Mapping[Any, int]) -> Iterator[tuple[Host, int]]:
    unplaced = [host for host in members if host.process_index is None]
    placed = [host for host in members if host.process_index is not None]
    for index, group in groupby(placed, key=lambda host: host.process_index):
        incarnations = list(group)
        newest = incarnations[-1]
        yield newest, len(incarnations) + dropped.get((run_of(newest), index), 0)
    for host in unplaced:
        yield host, 1
