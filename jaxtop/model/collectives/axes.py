"""The mesh axes along which a collective runs."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from jaxtop.model.windows import Axes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtop.model.meshes import MeshView
    from jaxtop.model.windows import Groups


@lru_cache(maxsize=256)
def axes_of(mesh: MeshView, groups: Groups) -> Axes | None:
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
    return Axes(tuple(names), is_whole)


def best_mesh(
    meshes: Sequence[MeshView], of_program: Iterable[Groups], held: Callable[[MeshView], int]
) -> MeshView | None:
    """Return the mesh whose axes match most collectives exactly; then has most array bytes."""
    if len(meshes) < 2:
        return meshes[0] if meshes else None
    listed = list(of_program)

    def rank(mesh: MeshView) -> tuple[int, int]:
        found = (axes_of(mesh, groups) for groups in listed)
        return sum(axes is not None and axes.is_whole for axes in found), held(mesh)

    return max(meshes, key=rank)


def _varies(places: list[int], stride: int, size: int) -> bool:
    first = places[0] // stride % size
    return any(place // stride % size != first for place in places)
