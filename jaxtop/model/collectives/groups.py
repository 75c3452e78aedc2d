"""The groups of a collective: from places in a program's device assignment to devices and mesh axes."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.model.windows import GroupAxes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.model.arrays.meshes import MeshView
    from jaxtop.model.windows import Groups


@lru_cache(maxsize=256)
def expand(groups: wire.ReplicaGroups) -> Groups:
    """Return the places of each group. No place is in two groups: agents merge groups that share one."""
    places = wire.unpack_runs(groups.members)
    if len(groups.sizes) == 1:
        size = groups.sizes[0]
        return tuple(places[start : start + size] for start in range(0, len(places), size))
    rest = iter(places)
    return tuple(tuple(next(rest) for _ in range(size)) for size in groups.sizes)


def assignment(
    devices: int, reported: Sequence[tuple[int, ...]], meshes: Iterable[tuple[int, ...]]
) -> tuple[int, ...] | None:
    """Return the device at each place, from the devices that each process reports; None if uncertain.

    A program's assignment has the order of its mesh. The first of these orders is used in which the devices
    of every process appear in the order that the process reports.
    """
    if len(reported) == 1 and len(reported[0]) == devices:
        return reported[0]
    if not reported:
        return None
    return next((order for order in meshes if len(order) == devices and _agrees(order, reported)), None)


def _agrees(order: tuple[int, ...], reported: Sequence[tuple[int, ...]]) -> bool:
    place = {device: i for i, device in enumerate(order)}
    if len(place) != len(order):
        return False
    for own in reported:
        places = [place.get(device, -1) for device in own]
        if not places or places[0] < 0 or any(a >= b for a, b in pairwise(places)):
            return False
    return True


@lru_cache(maxsize=256)
def axes_of(mesh: MeshView, groups: Groups) -> GroupAxes | None:
    """Return the axes of groups of device ids; None if a device is not part of this mesh."""
    positions = mesh.positions
    try:
        placed = [[positions[device] for device in group] for group in groups]
    except KeyError:
        return None
    names, sizes, stride = [], [], len(mesh.device_ids)
    for name, size in mesh.axes:
        stride //= size
        if size > 1 and any(_varies(group, stride, size) for group in placed):
            names.append(name)
            sizes.append(size)
    whole = prod(sizes)
    is_whole = len(groups) * whole == len(mesh.device_ids) and all(len(group) == whole for group in groups)
    return GroupAxes(tuple(names), is_whole)


def best_mesh(meshes: Sequence[MeshView], of_program: Iterable[Groups]) -> MeshView | None:
    """Return the first of the meshes whose axes match most collectives exactly."""
    if len(meshes) < 2:
        return meshes[0] if meshes else None
    listed = list(of_program)

    def matching(mesh: MeshView) -> int:
        found = (axes_of(mesh, groups) for groups in listed)
        return sum(axes is not None and axes.is_whole for axes in found)

    return max(meshes, key=matching)


def _varies(places: list[int], stride: int, size: int) -> bool:
    first = places[0] // stride % size
    return any(place // stride % size != first for place in places)
