"""The census: every live array of the process, by shape, dtype and sharding, and what it takes per device."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import wire
from jaxtop_agent import jaxprivate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop_agent.board import Board

# The largest groups go over the wire one by one, the rest as a sum: a message stays below MAX_TELEMETRY.
MOST_GROUPS = 1000

_aval = attrgetter("aval")
_sharding = attrgetter("sharding")


@dataclass(frozen=True)
class _Group:
    """Plain facts of arrays that are alike, taken from one of them; nothing here keeps an array alive."""

    shape: tuple[int, ...]
    dtype: str
    sharding: wire.Sharding
    count: int
    bytes_each: int
    bytes_each_on_device: int
    on_devices: frozenset[int]


class ArrayCensus:
    """Sent when it changed. Where no allocator counts, its sums are the devices' memory figures."""

    name = "arrays"
    also_unwatched = False

    def __init__(self) -> None:
        self._last: wire.Arrays | None = None

    def collect(self, board: Board, client: Any) -> None:
        if client is None:
            return
        devices = jaxprivate.local_devices(client)
        local_ids = tuple(device.id for device in devices)
        shardings = _Shardings(frozenset(local_ids))
        groups = list(_groups(shardings))
        if board.memory_source != "allocator":
            held = _held(groups, _default_memory(devices[0]))
            board.devices = msgspec.structs.replace(
                board.devices, used_bytes=tuple(held[device_id] for device_id in local_ids)
            )
            board.memory_source = "arrays"
        arrays = _message(groups, shardings)
        # Values compare without the time, so that a census in which nothing moved is not sent.
        if arrays != self._last:
            self._last = arrays
            board.tell(msgspec.structs.replace(arrays, at_ms=time.time_ns() // 1_000_000))


def _groups(shardings: _Shardings) -> Iterable[_Group]:
    """Count in C by identity first: arrays of one kind share their `aval` and, mostly, their sharding."""
    arrays = jaxprivate.live_arrays()
    keys = list(zip(map(id, map(_aval, arrays)), map(id, map(_sharding, arrays)), strict=True))
    one_of_each = dict(zip(keys, arrays, strict=True))
    del arrays
    counts = Counter(keys)
    while one_of_each:
        key, array = one_of_each.popitem()
        group = _describe(array, counts[key], shardings)
        del array  # one array a time is held, and for microseconds
        if group is not None:
            yield group


def _describe(array: Any, count: int, shardings: _Shardings) -> _Group | None:
    # Not `addressable_shards`: it caches arrays on the user's array, each of which then counts as live.
    try:
        sharding, device_count, on_devices = shardings.of(array.sharding)
        return _Group(
            shape=tuple(array.shape),
            dtype=str(array.dtype),
            sharding=sharding,
            count=count,
            bytes_each=array.nbytes,
            # The physical size, over all devices of the array, those of other processes included.
            bytes_each_on_device=array.on_device_size_in_bytes() // max(1, device_count),
            on_devices=on_devices,
        )
    except RuntimeError:  # deleted or donated since it was listed
        return None


_Known = tuple[wire.Sharding, int, frozenset[int]]


class _Shardings:
    """Shardings as values, each made once a census; equal ones of different arrays become one."""

    def __init__(self, local_ids: frozenset[int]) -> None:
        self._local_ids = local_ids
        self._known: dict[object, _Known] = {}
        self._mesh_of: dict[int, int] = {}
        self.meshes: list[wire.Mesh] = []

    def of(self, sharding: Any) -> _Known:
        """The sharding as a value, how many devices it has, and which of them are ours."""
        mesh, spec = getattr(sharding, "mesh", None), getattr(sharding, "spec", None)
        has_mesh = spec is not None and getattr(mesh, "devices", None) is not None
        key = (id(mesh), spec, sharding.memory_kind) if has_mesh else sharding
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._named(sharding) if has_mesh else self._other(sharding)
        return known

    def _named(self, sharding: Any) -> _Known:
        index = self._mesh_index(sharding.mesh)
        ids = wire.unpack_ids(self.meshes[index].device_ids)
        described = wire.Sharding("named", spec_text(sharding.spec), index, (), sharding.memory_kind)
        return described, len(ids), self._local_ids.intersection(ids)

    def _other(self, sharding: Any) -> _Known:
        ids = tuple(sorted(device.id for device in sharding.device_set))
        kind = type(sharding).__name__.removesuffix("Sharding").lower()
        text = "" if kind == "singledevice" else str(getattr(sharding, "_hlo_sharding", sharding))[:200]
        described = wire.Sharding(
            "single" if kind == "singledevice" else kind,
            text,
            None,
            wire.pack_ids(ids),
            sharding.memory_kind,
        )
        return described, len(ids), self._local_ids.intersection(ids)

    def _mesh_index(self, mesh: Any) -> int:
        index = self._mesh_of.get(id(mesh))
        if index is None:
            described = wire.Mesh(
                axes=tuple((str(name), int(size)) for name, size in mesh.shape.items()),
                device_ids=wire.pack_ids(tuple(device.id for device in mesh.devices.flat)),
            )
            if described not in self.meshes:
                self.meshes.append(described)
            index = self._mesh_of[id(mesh)] = self.meshes.index(described)
        return index


def spec_text(spec: Any) -> str:
    """A PartitionSpec in one spelling, whatever the version of JAX prints."""
    return f"P({', '.join(repr(entry) for entry in spec)})"


def _default_memory(device: Any) -> str | None:
    try:
        return str(device.default_memory().kind)
    except Exception:  # backends without memory spaces
        return None


def _held(groups: list[_Group], default_memory: str | None) -> Counter[int]:
    """Bytes on each local device; arrays offloaded to the host's memory do not count."""
    held: Counter[int] = Counter()
    for group in groups:
        if group.sharding.memory_kind in (default_memory, None):
            for device_id in group.on_devices:
                held[device_id] += group.count * group.bytes_each_on_device
    return held


def _message(groups: list[_Group], shardings: _Shardings) -> wire.Arrays:
    table: dict[wire.Sharding, int] = {}
    merged: dict[tuple[object, ...], wire.ArrayGroup] = {}
    for group in groups:
        index = table.setdefault(group.sharding, len(table))
        key = (group.shape, group.dtype, index)
        before = merged.get(key)
        merged[key] = wire.ArrayGroup(
            shape=group.shape,
            dtype=group.dtype,
            sharding=index,
            count=group.count + (before.count if before else 0),
            bytes_global=group.count * group.bytes_each + (before.bytes_global if before else 0),
            bytes_per_device=group.count * group.bytes_each_on_device
            + (before.bytes_per_device if before else 0),
        )
    ordered = sorted(merged.values(), key=lambda g: (-g.bytes_per_device, g.shape, g.dtype, g.sharding))
    rest = ordered[MOST_GROUPS:]
    return wire.Arrays(
        at_ms=0,
        meshes=tuple(shardings.meshes),
        shardings=tuple(table),
        groups=tuple(ordered[:MOST_GROUPS]),
        total_count=sum(group.count for group in groups),
        rest_groups=len(rest),
        rest_count=sum(group.count for group in rest),
        rest_bytes=sum(group.bytes_per_device for group in rest),
    )
