"""Live arrays: the census and its changes."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import Count, TimeMs, WireInteger  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.ids import Ids  # noqa: TC001 - msgspec reads the annotations


class Mesh(Struct, frozen=True, array_like=True):
    """Named axes with their sizes, and the devices in row-major order of these axes."""

    axes: tuple[tuple[str, WireInteger], ...]
    device_ids: Ids


class Sharding(Struct, frozen=True, array_like=True):
    """How arrays are distributed over devices: over a mesh by a spec, or over a plain list of devices.

    `parts` has, for each dimension, the mesh axes that divide it, the slowest first. Without a mesh, `tiles`
    has the number of pieces of each dimension; the devices are then in row-major order of the pieces, with
    the copies of a piece next to each other. Both determine what a device holds; None where unknown.
    """

    kind: str
    spec: str
    mesh: WireInteger | None
    device_ids: Ids
    memory_kind: str | None
    parts: tuple[tuple[str, ...], ...] | None = None
    tiles: tuple[WireInteger, ...] | None = None


class ArrayGroup(Struct, frozen=True, array_like=True):
    """Live arrays that differ only in their values; the bytes are those of one array.

    If `groups` is more than 1, it stands for that many smaller groups, and the bytes are those of all of
    them. `name` is the path by which the script reaches the arrays from a variable of `function`; `created`
    is the line that made them.
    """

    shape: tuple[WireInteger, ...]
    dtype: str
    sharding: WireInteger
    bytes_global: Count
    bytes_per_device: Count
    name: str | None = None
    function: str | None = None
    role: str | None = None
    created: str | None = None
    groups: Count = 1


class Arrays(Struct, frozen=True, omit_defaults=True, tag="arrays"):
    """The full census of live arrays: the largest groups one by one, and the current count of each group."""

    at_ms: TimeMs
    serial: WireInteger = 0
    number: WireInteger = 0
    meshes: tuple[Mesh, ...] = ()
    shardings: tuple[Sharding, ...] = ()
    groups: tuple[ArrayGroup, ...] = ()
    counts: tuple[Count, ...] = ()


class ArraysChange(Struct, frozen=True, omit_defaults=True, tag="arrays_change"):
    """The changes since census `number - 1` of the same `serial`, by position in its lists."""

    at_ms: TimeMs
    serial: WireInteger
    number: WireInteger
    counts: tuple[tuple[WireInteger, Count], ...] = ()
    groups: tuple[tuple[WireInteger, ArrayGroup], ...] = ()
    meshes: tuple[Mesh, ...] = ()
    shardings: tuple[Sharding, ...] = ()
