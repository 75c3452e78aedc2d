"""Checks that types cannot express; every decoded message passes them before it is used.

A few bytes can stand for millions of devices, and an index can be out of range. The checks unpack nothing.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from jaxtop.wire.arrays import Arrays, ArraysChange, Mesh, Sharding
from jaxtop.wire.bounds import (
    MAX_AXES,
    MAX_DEVICES,
    MAX_DIMENSIONS,
    MAX_GROUPS,
    MAX_NATIVE_FRAMES,
    MAX_OPERATIONS,
    MAX_PLACES,
    MAX_SHARDINGS,
    Unreadable,
)
from jaxtop.wire.hosts import Hello
from jaxtop.wire.ids import Ids, check_ids
from jaxtop.wire.operations import Operations
from jaxtop.wire.programs import Inventory, ReplicaGroups
from jaxtop.wire.stacks import Stacks
from jaxtop.wire.windows import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop.wire.arrays import ArrayGroup


def check(message: Any) -> None:
    """Raise `Unreadable` if a message is too large or contradicts itself."""
    found = _CHECKS.get(type(message))
    if found is not None:
        found(message)


def check_census(
    census: Arrays, meshes: Iterable[Mesh], shardings: Iterable[Sharding], groups: Iterable[ArrayGroup]
) -> None:
    """Raise unless the new parts of a census refer to existing ones, and the whole is within bounds."""
    if len(census.counts) != len(census.groups):
        raise Unreadable("array groups without counts")
    if len(census.groups) > MAX_GROUPS:
        raise Unreadable("more array groups than any agent lists")
    for mesh in meshes:
        _check_mesh(mesh)
    for sharding in shardings:
        _check_sharding(sharding, len(census.meshes))
    for group in groups:
        if not 0 <= group.sharding < len(census.shardings):
            raise Unreadable("an array with a sharding that is not there")
        if len(group.shape) > MAX_DIMENSIONS:
            raise Unreadable("an array of too many dimensions")
    if meshes or shardings:
        _check_size(census)


def _check_size(census: Arrays) -> None:
    if len(census.meshes) > MAX_SHARDINGS or len(census.shardings) > MAX_SHARDINGS:
        raise Unreadable("more meshes or shardings than any agent lists")
    named = [each.device_ids for each in census.meshes] + [each.device_ids for each in census.shardings]
    if sum(map(_length, named)) > MAX_PLACES:
        raise Unreadable("meshes and shardings over more devices than a census may name")


def _check_arrays(arrays: Arrays) -> None:
    check_census(arrays, arrays.meshes, arrays.shardings, arrays.groups)


def _check_change(change: ArraysChange) -> None:
    """Check what does not depend on the previous census; the fold checks the rest."""
    for mesh in change.meshes:
        _check_mesh(mesh)
    for sharding in change.shardings:
        _check_sharding(sharding, None)


def _check_mesh(mesh: Mesh) -> None:
    check_ids(mesh.device_ids)
    devices = _length(mesh.device_ids)
    sizes = [size for _, size in mesh.axes]
    if len(sizes) > MAX_AXES:
        raise Unreadable("a mesh of too many axes")
    if not sizes and not devices:
        return
    if any(size < 1 for size in sizes):
        raise Unreadable("a mesh axis without devices")
    if prod(sizes) != devices:
        raise Unreadable("a mesh whose axes have more or fewer places than it has devices")


def _check_sharding(sharding: Sharding, meshes: int | None) -> None:
    check_ids(sharding.device_ids)
    if sharding.mesh is not None and (sharding.mesh < 0 or (meshes is not None and sharding.mesh >= meshes)):
        raise Unreadable("a sharding over a mesh that is not there")
    tiles, parts = sharding.tiles or (), sharding.parts or ()
    if len(tiles) > MAX_DIMENSIONS or len(parts) > MAX_DIMENSIONS:
        raise Unreadable("a sharding of too many dimensions")
    if any(tile < 1 for tile in tiles):
        raise Unreadable("a dimension that is cut into no pieces")


def _check_inventory(inventory: Inventory) -> None:
    check_ids(inventory.local_ids)
    if not 0 <= inventory.devices <= MAX_DEVICES:
        raise Unreadable("a program on more devices than any mesh has")
    places = [_check_groups(each, inventory.devices) for each in inventory.groups]
    if sum(places) > MAX_PLACES:
        raise Unreadable("replica groups with more places than an inventory may name")
    for collective in inventory.collectives:
        if collective.groups is not None and not 0 <= collective.groups < len(inventory.groups):
            raise Unreadable("a collective among groups that are not there")


def _check_groups(groups: ReplicaGroups, devices: int) -> int:
    """Return how many places the groups name; raise `Unreadable` if sizes and members disagree."""
    if any(size <= 0 for size in groups.sizes):
        raise Unreadable("a replica group of nobody")
    if any(count < 0 for _, count, _ in groups.members):
        raise Unreadable("a run of less than no places")
    places = _length(groups.members)
    # A permute names each place twice: as source and as target.
    if places > 2 * (devices or MAX_DEVICES):
        raise Unreadable("replica groups with more places than the program has")
    if len(groups.sizes) == 1:
        if places % groups.sizes[0]:
            raise Unreadable("replica groups that do not come out even")
    elif sum(groups.sizes) != places:
        raise Unreadable("replica groups with more or fewer members than they say")
    return places


def _check_window(window: Window) -> None:
    programs, launches, ops = len(window.programs), len(window.launches), len(window.ops)
    if not all(0 <= each.program < programs for each in window.launches):
        raise Unreadable("a launch of a program that is not there")
    if not 0 <= window.unassigned_permille <= 1000 or window.clock_error_us < 0:
        raise Unreadable("a window with a share or an error that cannot be")
    if not all(0 <= each.launch < launches and 0 <= each.op < ops for each in window.rounds):
        raise Unreadable("a collective timed in a launch that is not there")


def _check_operations(found: Operations) -> None:
    if len(found.operations) > MAX_OPERATIONS or len(found.rest_us) > MAX_OPERATIONS:
        raise Unreadable("more operations than any agent lists")


def _check_stacks(stacks: Stacks) -> None:
    native = [each.native for each in stacks.threads if each.native is not None]
    if sum(len(each.frames) for each in native) > MAX_NATIVE_FRAMES:
        raise Unreadable("more native frames than any agent sends")
    if any(frame.offset < 0 or not frame.count for each in native for frame in each.frames):
        raise Unreadable("a native frame that cannot be")


def _check_hello(hello: Hello) -> None:
    if any(len(device.coords or ()) > MAX_DIMENSIONS for device in hello.devices):
        raise Unreadable("coordinates of too many dimensions")


def _length(runs: Ids | tuple[tuple[int, int, int], ...]) -> int:
    return sum(run[1] for run in runs)


_CHECKS: dict[type, Callable[[Any], None]] = {
    Arrays: _check_arrays,
    ArraysChange: _check_change,
    Hello: _check_hello,
    Inventory: _check_inventory,
    Window: _check_window,
    Operations: _check_operations,
    Stacks: _check_stacks,
}
