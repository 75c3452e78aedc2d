"""The memory of each device by use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.model.arrays.groups import is_in_host_memory, total
from jaxtop.model.arrays.meshes import mesh_view
from jaxtop.model.hardware.allocators import largest_block, scattered_bytes
from jaxtop.model.host import device_entry, run_of
from jaxtop.model.programs.views import launched_lately

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from jaxtop.model.devices import DeviceView
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState


class Part(StrEnum):
    """The parts of a device's memory: live arrays first, then what only an allocator reports."""

    PARAMETERS = "parameters"
    OPTIMIZER = "optimizer"
    GRADIENTS = "gradients"
    BATCH = "batch"
    OTHER = "other named"
    UNNAMED = "unnamed"
    TEMPORARIES = "temporaries"
    UNEXPLAINED = "unexplained"
    RESERVED = "reserved"
    FREE = "free"


PARTS = tuple(Part)
_ARRAYS = PARTS.index(Part.TEMPORARIES)
_ROLES = {"parameters": 0, "optimizer": 1, "gradients": 2, "batch": 3}
_OTHER, _UNNAMED = PARTS.index(Part.OTHER), PARTS.index(Part.UNNAMED)
NO_BYTES = (0,) * len(PARTS)


@dataclass(frozen=True, slots=True)
class MemoryView:
    """The memory of a device by parts, in the order of `PARTS`.

    The bytes of arrays are the sums of the census. If an allocator counts, what it counts beyond the arrays
    is split in two: the temporaries of programs (an estimate: the most that a recently launched program
    needs) and the unexplained rest. `reserved` is what the allocator holds back, or has free in pieces
    smaller than the largest block.
    """

    device: DeviceView
    bytes: tuple[int, ...] = NO_BYTES
    largest_free_bytes: int | None = None
    # Whether the process counts its arrays. If it does not, their bytes are part of the used memory.
    is_counted: bool = True

    def bytes_of(self, part: Part) -> int | None:
        """Return the bytes of a part; None where unknown."""
        if self.device.used_bytes is None:
            return None
        if part is Part.FREE:
            return self.bytes[PARTS.index(part)] if self.device.limit_bytes else None
        if PARTS.index(part) >= _ARRAYS and self.device.memory_source != "allocator":
            return None
        if not self.is_counted and part is not Part.RESERVED:
            return None
        return self.bytes[PARTS.index(part)]


class _Plan(NamedTuple):
    """How the groups of a census add up: a slot for each sharding and part, and each sharding's devices."""

    slots: list[int]
    positions: list[tuple[int, ...]]


def memory_views(cluster: ClusterState, devices: Iterable[DeviceView]) -> list[MemoryView]:
    found: list[MemoryView] = []
    for agent, of_host in groupby(devices, key=attrgetter("agent")):
        host = cluster.hosts.get(agent)
        if host is not None:
            found += _memory_of_host(cluster, host, list(of_host))
    return found


def _memory_of_host(cluster: ClusterState, host: Host, devices: Sequence[DeviceView]) -> list[MemoryView]:
    def derive() -> list[MemoryView]:
        sums, temporaries = _sums(cluster, host), _temporaries(host)
        return [_view(host, device, sums, temporaries) for device in devices]

    return cluster.derived.of("memory", host.agent, cluster.hosts, (host.arrays, *devices), derive)


def memory_total(views: Sequence[MemoryView]) -> tuple[int, ...]:
    held = [view.bytes for view in views]
    return tuple(sum(map(itemgetter(part), held)) for part in range(len(PARTS)))


def _view(host: Host, device: DeviceView, sums: list[tuple[int, ...]], temporaries: int) -> MemoryView:
    if device.used_bytes is None:
        return MemoryView(device)
    arrays = sums[device.position] if device.position < len(sums) else NO_BYTES[:_ARRAYS]
    if device.memory_source != "allocator":
        free = max(0, (device.limit_bytes or 0) - device.used_bytes)
        return MemoryView(device, (*arrays, *NO_BYTES[_ARRAYS:-1], free))
    sample = host.pulse.devices
    reserved = device_entry(sample.reserved_bytes, device.position) or 0
    reserved += scattered_bytes(sample, device.position)
    # Arrays and allocator are read at different moments, so they may disagree between two launches.
    beyond = max(0, device.used_bytes - sum(arrays))
    temporaries = min(temporaries, beyond)
    free = max(0, (device.limit_bytes or 0) - device.used_bytes - reserved)
    parts = (*arrays, temporaries, beyond - temporaries, reserved, free)
    largest = largest_block(sample, device.position)
    return MemoryView(device, parts, largest, is_counted=not host.is_off("arrays"))


def _temporaries(host: Host) -> int:
    """Return the most that a recently launched program needs besides its arguments and results."""
    lately = launched_lately(host)
    sizes = (program.temp_bytes for program in host.programs.programs if program.name in lately)
    return max((size for size in sizes if size is not None), default=0)


def _sums(cluster: ClusterState, host: Host) -> list[tuple[int, ...]]:
    """Return the bytes of arrays by part, for each device of a process."""
    inputs = host.hello, host.arrays
    return cluster.derived.of(
        "memory of arrays", host.agent, cluster.hosts, inputs, lambda: _summed(host, _plan(cluster, host))
    )


def held_by_arrays(cluster: ClusterState, host: Host) -> list[int]:
    """Return the bytes of live arrays on each device of a process, by its last census."""
    return [sum(parts) for parts in _sums(cluster, host)]


def distinct_bytes(cluster: ClusterState, host: Host) -> int:
    """Return the bytes of a process's arrays in device memory, each once, however many devices hold it."""

    def derive() -> int:
        census, places = host.arrays, _plan(cluster, host).positions
        counted = zip(census.groups, census.counts, strict=True)
        return sum(total(each.bytes_global, each, count) for each, count in counted if places[each.sharding])

    return cluster.derived.of("distinct bytes", host.agent, cluster.hosts, (host.hello, host.arrays), derive)


def _summed(host: Host, plan: _Plan) -> list[tuple[int, ...]]:
    census = host.arrays
    slots = [0] * (len(plan.positions) * _ARRAYS)
    for group, count, slot in zip(census.groups, census.counts, plan.slots, strict=True):
        if count:
            slots[slot] += total(group.bytes_per_device, group, count)
    held = [[0] * _ARRAYS for _ in host.devices]
    for i, positions in enumerate(plan.positions):
        for position in positions:
            for part in range(_ARRAYS):
                held[position][part] += slots[i * _ARRAYS + part]
    return [tuple(each) for each in held]


def places_of(cluster: ClusterState, host: Host) -> list[tuple[int, ...]]:
    """Return the positions of the devices of each sharding of a process; none for host memory."""
    return _plan(cluster, host).positions


def _plan(cluster: ClusterState, host: Host) -> _Plan:
    census = host.arrays
    inputs = host.hello, census.groups, census.shardings
    return cluster.derived.of("plan of arrays", host.agent, cluster.hosts, inputs, lambda: _planned(host))


def _planned(host: Host) -> _Plan:
    slots = [group.sharding * _ARRAYS + _part(group) for group in host.arrays.groups]
    return _Plan(slots, [positions_of(host, sharding) for sharding in host.arrays.shardings])


def _part(group: wire.ArrayGroup) -> int:
    return _ROLES.get(group.role or "", _OTHER if group.name or group.role else _UNNAMED)


def positions_of(host: Host, sharding: wire.Sharding) -> tuple[int, ...]:
    """Return the positions of the devices that hold such arrays; none if they are in host memory."""
    if is_in_host_memory(sharding.memory_kind, is_cpu=host.is_on_cpu):
        return ()
    ids: Collection[int]
    if sharding.mesh is None:
        ids = frozenset(wire.unpack_ids(sharding.device_ids))
    else:  # a thousand hosts report the same few meshes
        ids = mesh_view(run_of(host), host.arrays.meshes[sharding.mesh]).positions
    return tuple(i for i, device in enumerate(host.devices) if device.id in ids)
