"""The census: every live array of the process, by shape, dtype and sharding, and what it takes per device."""

from __future__ import annotations

import time
from collections import Counter
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import wire
from jaxtop_agent import jaxprivate

if TYPE_CHECKING:
    from jaxtop_agent.board import Board

# The largest groups go over the wire one by one, the rest as a sum: a message stays below MAX_TELEMETRY.
MOST_GROUPS = 1000
# The training script waits for the GIL at most so long while we look at its arrays one by one.
BREATHE_AFTER_S = 0.003
LOOKS_AT_ONCE = 250
# Not 0, after which the GIL would be ours again before anybody woke up.
BREATH_S = 1e-5


class _Group(msgspec.Struct, gc=False):
    """Plain facts of arrays that are alike, taken from one of them; nothing here keeps an array alive."""

    shape: tuple[int, ...]
    dtype: str
    sharding: int
    bytes_each: int
    bytes_each_on_device: int
    aval: Any  # only so that no other gets its id while we go by that
    count: int = 1

    @property
    def bytes_per_device(self) -> int:
        return self.count * self.bytes_each_on_device

    def is_like(self, other: _Group) -> bool:
        return (
            self.shape == other.shape
            and self.dtype == other.dtype
            and self.sharding == other.sharding
            and self.bytes_each == other.bytes_each
            and self.bytes_each_on_device == other.bytes_each_on_device
        )


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
        groups = _groups(shardings)
        if board.memory_source != "allocator":
            held = _held(groups, shardings, _default_memory(devices[0]))
            board.devices = msgspec.structs.replace(
                board.devices, used_bytes=tuple(held[device_id] for device_id in local_ids)
            )
            board.memory_source = "arrays"
        arrays = _message(groups, shardings)
        # Values compare without the time, so that a census in which nothing moved is not sent.
        if arrays != self._last:
            self._last = arrays
            board.tell(msgspec.structs.replace(arrays, at_ms=time.time_ns() // 1_000_000))

    def forget(self, board: Board) -> None:
        if board.memory_source == "arrays":
            board.devices, board.memory_source = wire.DeviceSample(), None


def _groups(shardings: _Shardings) -> list[_Group]:
    """Look at each array once, and let go of it soon; the GIL is let go of in between.

    And make no lasting objects that Python's garbage collector counts, or it would go through the whole
    program's in our time: plain dicts of integers and structs that it does not know.
    """
    groups: list[dict[int, _Group]] = []  # by number of the sharding, by id of the aval
    time.sleep(BREATH_S)
    arrays = jaxprivate.live_arrays()
    breathe_at = 0.0  # at once: that call was one long hold of the GIL
    while arrays:
        if time.monotonic() >= breathe_at:
            time.sleep(BREATH_S)
            breathe_at = time.monotonic() + BREATHE_AFTER_S
        some = arrays[-LOOKS_AT_ONCE:]
        del arrays[-LOOKS_AT_ONCE:]
        _count(some, groups, shardings)
    return [group for alike in groups for group in alike.values()]


def _count(arrays: list[Any], groups: list[dict[int, _Group]], shardings: _Shardings) -> None:
    """By identity where that is enough: arrays that are alike share their `aval`, and many their sharding."""
    numbers = shardings.numbers
    for array in arrays:
        try:
            aval, sharding = array.aval, array.sharding
            number = numbers.get(id(sharding))
            if number is None:
                number = shardings.number(sharding)
                if number == len(groups):
                    groups.append({})
            group = groups[number].get(id(aval))
            if group is None:
                groups[number][id(aval)] = _describe(array, aval, number, shardings)
            else:
                group.count += 1
        except RuntimeError:  # deleted or donated since it was listed
            continue


def _describe(array: Any, aval: Any, number: int, shardings: _Shardings) -> _Group:
    # Not `addressable_shards`: it caches arrays on the user's array, each of which then counts as live.
    return _Group(
        shape=tuple(array.shape),
        dtype=_dtype_text(array.dtype),
        sharding=number,
        bytes_each=array.nbytes,
        # The physical size, over all devices of the array, those of other processes included.
        bytes_each_on_device=array.on_device_size_in_bytes() // max(1, shardings.device_counts[number]),
        aval=aval,
    )


@cache
def _dtype_text(dtype: Any) -> str:
    return str(dtype)


class _Shardings:
    """Shardings as values, each made once a census; equal ones of different arrays become one."""

    def __init__(self, local_ids: frozenset[int]) -> None:
        self._local_ids = local_ids
        self._met: list[Any] = []  # only so that no other gets the id of one while we go by ids
        self._number_of: dict[object, int] = {}
        self._mesh_of: dict[int, int] = {}
        self.numbers: dict[int, int] = {}
        self.meshes: list[wire.Mesh] = []
        self.described: list[wire.Sharding] = []
        self.device_counts: list[int] = []
        self.on_devices: list[frozenset[int]] = []

    def number(self, sharding: Any) -> int:
        """The number of a sharding that was not met before; the lists are in the order of the numbers."""
        self._met.append(sharding)
        mesh, spec = getattr(sharding, "mesh", None), getattr(sharding, "spec", None)
        has_mesh = spec is not None and getattr(mesh, "devices", None) is not None
        key = (id(mesh), spec, sharding.memory_kind) if has_mesh else sharding
        number = self._number_of.get(key)
        if number is None:
            described, ids = self._named(sharding) if has_mesh else self._other(sharding)
            number = self._number_of[key] = len(self.described)
            self.described.append(described)
            self.device_counts.append(len(ids))
            self.on_devices.append(self._local_ids.intersection(ids))
        self.numbers[id(sharding)] = number
        return number

    def _named(self, sharding: Any) -> tuple[wire.Sharding, tuple[int, ...]]:
        index = self._mesh_index(sharding.mesh)
        described = wire.Sharding("named", spec_text(sharding.spec), index, (), sharding.memory_kind)
        return described, wire.unpack_ids(self.meshes[index].device_ids)

    def _other(self, sharding: Any) -> tuple[wire.Sharding, tuple[int, ...]]:
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
        return described, ids

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


def _held(groups: list[_Group], shardings: _Shardings, default_memory: str | None) -> Counter[int]:
    """Bytes on each local device; arrays offloaded to the host's memory do not count."""
    by_sharding: Counter[int] = Counter()
    for group in groups:
        by_sharding[group.sharding] += group.bytes_per_device
    held: Counter[int] = Counter()
    for number, size in by_sharding.items():
        if shardings.described[number].memory_kind in (default_memory, None):
            held.update(dict.fromkeys(shardings.on_devices[number], size))
    return held


def _message(groups: list[_Group], shardings: _Shardings) -> wire.Arrays:
    meshes, table, place = _in_order(shardings)
    for group in groups:
        group.sharding = place[group.sharding]
    groups = _merged(groups)
    largest, rest = groups[:MOST_GROUPS], groups[MOST_GROUPS:]
    return wire.Arrays(
        at_ms=0,
        meshes=meshes,
        shardings=table,
        groups=tuple(
            wire.ArrayGroup(
                shape=group.shape,
                dtype=group.dtype,
                sharding=group.sharding,
                count=group.count,
                bytes_global=group.count * group.bytes_each,
                bytes_per_device=group.bytes_per_device,
            )
            for group in largest
        ),
        total_count=sum(group.count for group in groups),
        rest_groups=len(rest),
        rest_count=sum(group.count for group in rest),
        rest_bytes=sum(group.bytes_per_device for group in rest),
    )


def _merged(groups: list[_Group]) -> list[_Group]:
    """The largest first; avals and shardings may be equal without being the same."""
    for figure in ("bytes_each", "bytes_each_on_device", "sharding", "dtype", "shape"):
        groups.sort(key=attrgetter(figure))  # one by one: keys made of several would be so many tuples
    merged: list[_Group] = []
    for group in groups:
        if merged and merged[-1].is_like(group):
            merged[-1].count += group.count
        else:
            merged.append(group)
    merged.sort(key=attrgetter("bytes_per_device"), reverse=True)
    return merged


def _in_order(
    shardings: _Shardings,
) -> tuple[tuple[wire.Mesh, ...], tuple[wire.Sharding, ...], list[int]]:
    """Meshes and shardings in an order of their own, and where each sharding went.

    They were met in the order of the arrays, which is another after each step; the census would seem changed.
    """
    meshes = sorted(shardings.meshes, key=lambda mesh: (mesh.axes, mesh.device_ids))
    place = [meshes.index(mesh) for mesh in shardings.meshes]
    described = [
        each if each.mesh is None else msgspec.structs.replace(each, mesh=place[each.mesh])
        for each in shardings.described
    ]
    table = sorted(set(described), key=wire.encode)
    return tuple(meshes), tuple(table), [table.index(each) for each in described]
