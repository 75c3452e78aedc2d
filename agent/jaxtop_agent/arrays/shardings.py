"""Shardings and meshes as values: compared by content, and numbered in the order of their appearance."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from jaxtop import wire
from jaxtop_agent import jaxprivate
from jaxtop_agent.arrays.specs import entries, spec_text

# A program may create shardings without end, but the census must not grow without end.
MAX_SHARDINGS = 1000
# `device_put` creates a sharding for each array. This many are found by identity, the others by content.
MOST_OBJECTS = 2000


class Shardings:
    """The tables of meshes and shardings. They only grow, so that numbers already sent stay valid."""

    def __init__(self, local_ids: frozenset[int]) -> None:
        self._local_ids = local_ids
        # Found by identity while we hold them. Equal shardings of different arrays get one number by value.
        self._objects: dict[int, Any] = {}
        self.by_id: dict[int, int] = {}
        self._mesh_by_id: dict[int, int] = {}
        # Numbers for arrays on one device, by the device's id and the kind of memory.
        self._by_device: dict[tuple[int, Any], int] = {}
        self._numbers: dict[wire.Sharding, int] = {}
        self.meshes: list[wire.Mesh] = []
        self.described: list[wire.Sharding] = []
        self.device_counts: list[int] = []
        self.on_devices: list[frozenset[int]] = []

    @property
    def is_full(self) -> bool:
        """Whether the tables should be rebuilt, because most entries are probably no longer used."""
        return len(self.described) > MAX_SHARDINGS

    def number(self, sharding: Any) -> int:
        number = self.by_id.get(id(sharding))
        if number is None:
            device = _only_device(sharding)
            number = None if device is None else self._by_device.get(device)
            if number is None:
                number = self._number(sharding)
                if device is not None:
                    self._by_device[device] = number
            if len(self.by_id) < MOST_OBJECTS:
                self._objects[id(sharding)] = sharding
                self.by_id[id(sharding)] = number
        return number

    def _number(self, sharding: Any) -> int:
        """Return the number of a sharding's value."""
        described, ids = self._describe(sharding)
        number = self._numbers.get(described)
        if number is None:
            number = self._numbers[described] = len(self.described)
            self.described.append(described)
            self.device_counts.append(len(ids))
            self.on_devices.append(self._local_ids.intersection(ids))
        return number

    def forget_objects(self) -> None:
        """Drop all shardings of JAX; their ids are no longer valid keys."""
        self._objects.clear()
        self.by_id.clear()
        self._mesh_by_id.clear()

    def _describe(self, sharding: Any) -> tuple[wire.Sharding, tuple[int, ...]]:
        mesh, spec = getattr(sharding, "mesh", None), getattr(sharding, "spec", None)
        if spec is not None and getattr(mesh, "devices", None) is not None:
            index = self._mesh_index(mesh)
            text, kind = spec_text(spec), sharding.memory_kind
            described = wire.Sharding("named", text, index, (), kind, _parts(spec))
            return described, wire.unpack_ids(self.meshes[index].device_ids)
        return _describe_other(sharding)

    def _mesh_index(self, mesh: Any) -> int:
        index = self._mesh_by_id.get(id(mesh))
        if index is None:
            described = wire.Mesh(
                axes=tuple((str(name), int(size)) for name, size in mesh.shape.items()),
                device_ids=wire.pack_ids(tuple(device.id for device in mesh.devices.flat)),
            )
            if described not in self.meshes:
                self.meshes.append(described)
            index = self._mesh_by_id[id(mesh)] = self.meshes.index(described)
            self._objects[id(mesh)] = mesh
        return index


def _only_device(sharding: Any) -> tuple[int, Any] | None:
    """Return the device id and the kind of memory of a `SingleDeviceSharding`; None for other shardings."""
    if type(sharding).__name__ != "SingleDeviceSharding":
        return None
    (device,) = sharding.device_set
    return device.id, sharding.memory_kind


def _describe_other(sharding: Any) -> tuple[wire.Sharding, tuple[int, ...]]:
    kind = type(sharding).__name__.removesuffix("Sharding").lower()
    ids = tuple(sorted(device.id for device in sharding.device_set))
    memory = sharding.memory_kind
    if kind == "singledevice":
        return wire.Sharding("single", "", None, wire.pack_ids(ids), memory), ids
    text = str(jaxprivate.hlo_sharding(sharding) or sharding)[:200]
    tiled = None
    with suppress(Exception):  # the tiling is unknown
        tiled = jaxprivate.tiles(sharding)
    if tiled is None:
        return wire.Sharding(kind, text, None, wire.pack_ids(ids), memory), ids
    tiles, ids = tiled
    return wire.Sharding(kind, text, None, wire.pack_ids(ids), memory, None, tiles), ids


def _parts(spec: Any) -> tuple[tuple[str, ...], ...] | None:
    parts: list[tuple[str, ...]] = []
    for entry in entries(spec):
        if entry is None:
            parts.append(())
        elif isinstance(entry, str):
            parts.append((entry,))
        elif isinstance(entry, tuple):
            parts.append(tuple(map(str, entry)))
        else:
            return None
    return tuple(parts)
