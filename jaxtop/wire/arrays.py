"""Live arrays: the census, and what changed in it."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import TimeMs  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.ids import Ids  # noqa: TC001 - msgspec reads the annotations


class Mesh(Struct, frozen=True, array_like=True):
    """Named axes with their sizes, and the devices in row-major order of these axes."""

    axes: tuple[tuple[str, int], ...]
    device_ids: Ids


class Sharding(Struct, frozen=True, array_like=True):
    """How arrays lie on devices: over a mesh by a spec, or simply on the devices named.

    What a device holds follows from `parts`, the axes of the mesh that cut each dimension, the slowest first;
    or, without a mesh, from `tiles`, into how many pieces each dimension is cut: the devices are then in
    row-major order of the pieces, the copies of a piece side by side. None where nobody knows.
    """

    kind: str
    spec: str
    mesh: int | None
    device_ids: Ids
    memory_kind: str | None
    parts: tuple[tuple[str, ...], ...] | None = None
    tiles: tuple[int, ...] | None = None


class ArrayGroup(Struct, frozen=True, array_like=True):
    """Live arrays that differ in nothing but their values; the bytes are those of one of them.

    Where `groups` is more than 1 it stands for so many smaller ones, and the bytes are those of all of them.
    `name` is the path by which the script reaches them from a variable of `function`, `created` the line
    that made them.
    """

    shape: tuple[int, ...]
    dtype: str
    sharding: int
    bytes_global: int
    bytes_per_device: int
    name: str | None = None
    function: str | None = None
    role: str | None = None
    created: str | None = None
    groups: int = 1


class Arrays(Struct, frozen=True, omit_defaults=True, tag="arrays"):
    """The census of live arrays, whole: groups, the largest one by one, and how many arrays each has now."""

    at_ms: TimeMs
    serial: int = 0
    number: int = 0
    meshes: tuple[Mesh, ...] = ()
    shardings: tuple[Sharding, ...] = ()
    groups: tuple[ArrayGroup, ...] = ()
    counts: tuple[int, ...] = ()


class ArraysChange(Struct, frozen=True, omit_defaults=True, tag="arrays_change"):
    """What is different since census `number - 1` of the same `serial`, by place in its lists."""

    at_ms: TimeMs
    serial: int
    number: int
    counts: tuple[tuple[int, int], ...] = ()
    groups: tuple[tuple[int, ArrayGroup], ...] = ()
    meshes: tuple[Mesh, ...] = ()
    shardings: tuple[Sharding, ...] = ()
