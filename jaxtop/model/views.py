"""Views of the model for display: runs, hosts in order, devices, meshes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby, islice
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from jaxtop import wire
from jaxtop.model.host import NO_PULSE
from jaxtop.model.liveness import State, current, has_exited, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jaxtop.model.figures import Figure
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState


# Launches a second are measured over about this long, or over two pulses if these are less frequent.
RATE_SECONDS = 10.0


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
        """Whether all its processes have exited."""
        return all(view.state.has_exited for view in self.hosts)


@dataclass(frozen=True)
class HostView:
    """The newest agent of a process, its state at a time, and how many times the process was started.

    Code that shows figures as current reads `now`; code that shows the last ones on purpose reads `last`.
    `host` is for the identity of the host, its programs and its arrays.
    """

    host: Host
    incarnation: int
    state: State

    @property
    def last(self) -> Host:
        """The host with all that it last reported."""
        return self.host

    @cached_property
    def now(self) -> Host:
        """The host with only its current figures; the others are unknown or empty."""
        return current(self.host, self.state)


# Not frozen: thousands are created at each paint, and freezing them takes five times as long.
@dataclass(slots=True)
class DeviceView:
    """A device with its current figures; None where unknown. An exited process has none."""

    run: str
    agent: str
    process_index: int | None
    hostname: str | None
    state: State
    id: int
    local_id: int | None
    position: int
    platform: str
    kind: str
    coords: tuple[int, ...] | None
    core_on_chip: int | None
    slice_index: int | None
    used_bytes: int | None
    peak_bytes: int | None
    limit_bytes: int | None
    memory_source: str | None
    utilization: float | None
    power_w: float | None
    temperature_c: float | None
    launches_per_second: float | None
    host_cpu_percent: float | None
    pulse: wire.Pulse = field(repr=False)
    last_pulse: wire.Pulse = field(repr=False)

    @property
    def last(self) -> DeviceView:
        """The device with the memory that it held when its process exited, if it has exited."""
        if not self.state.has_exited:
            return self
        held = self.last_pulse.devices
        memory = wire.DeviceSample(
            used_bytes=held.used_bytes, peak_bytes=held.peak_bytes, limit_bytes=held.limit_bytes
        )
        return replace(
            self,
            used_bytes=figure(held.used_bytes, self.position),
            peak_bytes=figure(held.peak_bytes, self.position),
            pulse=structs.replace(NO_PULSE, devices=memory),
        )

    def read(self, of: Figure) -> float | None:
        """Return one of `DEVICE_FIGURES` or `HOST_FIGURES`."""
        return of.read(self.pulse, self.position)

    @property
    def key(self) -> tuple[str, int]:
        """The identity of a device: its agent and its id."""
        return self.agent, self.id

    @property
    def used_share(self) -> float | None:
        """The used share of the memory that the allocator may use."""
        if self.used_bytes is None or not self.limit_bytes:
            return None
        return self.used_bytes / self.limit_bytes


@dataclass(frozen=True)
class MeshView:
    """A mesh that live arrays of a run are placed on; devices in row-major order of the axes."""

    run: str
    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...]

    @cached_property
    def positions(self) -> dict[int, int]:
        """The place of each device in the row-major order."""
        return {device_id: i for i, device_id in enumerate(self.device_ids)}

    def coordinates(self, device_id: int) -> tuple[int, ...] | None:
        """Return the coordinates of a device in the mesh."""
        rest = self.positions.get(device_id)
        if rest is None:
            return None
        found = []
        for _, size in reversed(self.axes):
            rest, at = divmod(rest, size)
            found.append(at)
        return tuple(reversed(found))


class Grouped(NamedTuple):
    """The processes of a run in order: the newest agent of each, and how many times it was started."""

    id: str
    name: str | None
    process_count: int | None
    members: tuple[tuple[Host, int], ...]


def runs(cluster: ClusterState, now: float) -> list[Run]:
    """Return all runs by name and id, with their processes in order and in their states at this time."""
    return [
        Run(
            each.id,
            each.name,
            each.process_count,
            tuple([_view(cluster, host, starts, now) for host, starts in each.members]),
        )
        for each in grouped(cluster)
    ]


def _view(cluster: ClusterState, host: Host, starts: int, now: float) -> HostView:
    state = state_of(host, now)
    return cluster.derived.of(
        "host views", host.agent, cluster.hosts, (host, starts, state), lambda: HostView(host, starts, state)
    )


def grouped(cluster: ClusterState) -> list[Grouped]:
    """Return the processes of all runs, without their states."""
    return cluster.derived.get("runs", (cluster.changes,), lambda: _grouped(cluster))


def _grouped(cluster: ClusterState) -> list[Grouped]:
    found = []
    for run_id, members in _members(cluster).items():
        newest = tuple(_newest_of_each_process(sorted(members, key=_order), cluster.dropped.starts))
        names = [host.run_name for host, _ in newest if host.run_name]
        counts = [host.process_count for host, _ in newest if host.process_count]
        found.append(Grouped(run_id, names[0] if names else None, max(counts, default=None), newest))
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
    index = host.process_index
    there = [each for each in members if not has_exited(each)]
    is_free = index is None or all(each.process_index != index for each in there)
    return is_free and (count is None or len(there) < count)


def host_views(cluster: ClusterState, now: float) -> list[HostView]:
    """Return the hosts of all runs, in order, in their states at this time."""
    return [view for run in runs(cluster, now) for view in run.hosts]


def hosts(cluster: ClusterState) -> list[Host]:
    """Return the hosts of all runs, in order; of a process that was started again, the newest."""
    return [host for run in grouped(cluster) for host, _ in run.members]


def devices(cluster: ClusterState, now: float) -> list[DeviceView]:
    """Return the devices of all runs, by process and in the order of JAX."""
    found: list[DeviceView] = []
    for view in host_views(cluster, now):
        found += _devices_of(cluster, view)
    return found


def launch_rate(cluster: ClusterState, host: Host) -> float | None:
    """Return a host's recent launches per second; None until they were counted twice."""
    since = None if _is_blind(host) else host.launches_since
    samples = cluster.history.get(host.agent, ())
    if since is None or not samples:
        return None
    first = last = samples[-1]
    for sample in islice(reversed(samples), 1, None):
        if sample.at < since or (first is not last and sample.at < last.at - RATE_SECONDS):
            break
        first = sample
    return (last.launches - first.launches) / (last.at - first.at) if last.at > first.at else None


def _is_blind(host: Host) -> bool:
    """Return whether launches are not counted: constant counters mean nothing then."""
    return host.hello is not None and host.hello.sources.get("launches", "").startswith("off")


def memory_history(cluster: ClusterState, agent: str, position: int) -> list[int | None]:
    """Return the bytes in use of one device, oldest first."""
    return [figure(sample.used_bytes, position) for sample in cluster.history.get(agent, ())]


def figure(column: tuple[int | None, ...] | None, position: int) -> int | None:
    """Return one device's entry of a column that may be unknown as a whole."""
    return column[position] if column is not None and position < len(column) else None


def scaled(value: int | None, unit: int) -> float | None:
    """Return a figure converted from its small unit; unknown stays unknown."""
    return None if value is None else value / unit


def meshes(cluster: ClusterState) -> list[MeshView]:
    """Return the distinct meshes of all runs, largest first."""
    # By identity: the fold shares equal meshes, and a thousand hosts report the same few.
    found = {(run_of(host), id(mesh)): mesh for host in hosts(cluster) for mesh in host.arrays.meshes}
    views = [mesh_view(run, mesh) for (run, _), mesh in found.items() if _is_whole(mesh)]
    return sorted(views, key=lambda mesh: (mesh.run, -len(mesh.device_ids), mesh.axes, mesh.device_ids))


def run_of(host: Host) -> str:
    """Return the id of a host's run; a host without one is a run by itself."""
    return host.run or host.agent


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


def _devices_of(cluster: ClusterState, view: HostView) -> list[DeviceView]:
    return cluster.derived.of(
        "devices", view.host.agent, cluster.hosts, (view,), lambda: list(_device_views(cluster, view))
    )


def _device_views(cluster: ClusterState, view: HostView) -> Iterator[DeviceView]:
    host, state = view.now, view.state
    pulse, last = host.pulse, view.last.pulse
    sample = pulse.devices
    run, index, hostname = run_of(host), host.process_index, host.hostname
    rate = launch_rate(cluster, host)
    cpu = scaled(pulse.host.process_cpu_permille, 10)
    for i, device in enumerate(host.hello.devices if host.hello else ()):
        yield DeviceView(
            run=run,
            agent=host.agent,
            process_index=index,
            hostname=hostname,
            state=state,
            id=device.id,
            local_id=device.local_id,
            position=i,
            platform=device.platform,
            kind=device.kind,
            coords=device.coords,
            core_on_chip=device.core_on_chip,
            slice_index=device.slice_index,
            used_bytes=figure(sample.used_bytes, i),
            peak_bytes=figure(sample.peak_bytes, i),
            # The limit and the source of the memory are facts, which outlive the process.
            limit_bytes=figure(last.devices.limit_bytes, i),
            memory_source=last.memory_source,
            utilization=scaled(figure(sample.utilization_permille, i), 1000),
            power_w=scaled(figure(sample.power_mw, i), 1000),
            temperature_c=figure(sample.temperature_c, i),
            launches_per_second=rate,
            host_cpu_percent=cpu,
            pulse=pulse,
            last_pulse=last,
        )


def _is_whole(mesh: wire.Mesh) -> bool:
    sizes = [size for _, size in mesh.axes]
    return all(size > 0 for size in sizes) and prod(sizes) == sum(count for _, count in mesh.device_ids)


@lru_cache(maxsize=256)
def mesh_view(run: str, mesh: wire.Mesh) -> MeshView:
    """Return the mesh of a run with its device ids expanded."""
    return MeshView(run, mesh.axes, wire.unpack_ids(mesh.device_ids))
