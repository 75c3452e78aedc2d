"""The arrays of the run as it is today, on its mesh."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from jaxtop.features.planning.messages import trimmed
from jaxtop.features.planning.model.plan import Tensor
from jaxtop.features.planning.model.roles import BATCH, axes_in, without
from jaxtop.model.arrays.groups import ArrayView, apart, is_in_host_memory, slices
from jaxtop.model.arrays.meshes import mesh_view
from jaxtop.model.arrays.tree import path_parts as steps_of_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.features.planning.model.plan import Parts
    from jaxtop.model.arrays.groups import Span
    from jaxtop.model.arrays.meshes import MeshView
    from jaxtop.model.host import Host


def tensors_on(
    members: Iterable[Host], views: Sequence[ArrayView], mesh: MeshView, *, is_cpu: bool
) -> tuple[Tensor, ...]:
    """Return the arrays of a run, with axes of size 1 that they had before the first step.

    JAX leaves such axes out of the shardings that the compiler chooses for results, and where it has a choice
    the compiler may divide an array by such an axis that the script does not. So these axes are hidden. They
    are not where any array of the same variable and line names one.
    """
    found = [_tensor(view, mesh, is_cpu=is_cpu) for view in views]
    unused = tuple(axis for axis, size in mesh.axes if size == 1)
    if not unused:
        return tuple(found)
    made = [each.name and (steps_of_name(each.name)[0], each.created) for each in views]
    named = {
        key
        for key, each in zip(made, found, strict=True)
        if any(axis in unused for axis in axes_in(each.parts))
    }
    before = _known_shardings(members, mesh)
    shown = [_shown(each, before, unused) for each in found]
    return tuple(
        replace(each, parts=parts, hidden=() if parts is None or key in named else unused)
        if key and each.role != BATCH
        else each
        for each, key, parts in zip(found, made, shown, strict=True)
    )


def _known_shardings(members: Iterable[Host], mesh: MeshView) -> dict[tuple[object, ...], set[Parts]]:
    """Return the shardings on this mesh that the arrays of a name, shape and type have, or had before."""
    found: dict[tuple[object, ...], set[Parts]] = {}
    for host in members:
        census = host.arrays
        for group in census.groups:
            sharding = census.shardings[group.sharding]
            if group.name is None or sharding.mesh is None or sharding.parts is None:
                continue
            if mesh_view(mesh.run, census.meshes[sharding.mesh]) == mesh:
                found.setdefault((group.name, group.shape, group.dtype), set()).add(sharding.parts)
    return found


def _shown(
    tensor: Tensor, before: dict[tuple[object, ...], set[Parts]], unused: Sequence[str]
) -> Parts | None:
    """Return the sharding of an array, with the axes of size 1 of an earlier one that else is the same."""
    parts = tensor.parts
    if parts is None or tensor.groups > 1:
        return parts
    used = trimmed(without(parts, unused))
    alike = [
        each
        for each in before.get((tensor.name, tensor.shape, tensor.dtype), ())
        if trimmed(without(each, unused)) == used
    ]
    return max([parts, *alike], key=lambda each: (sum(map(len, each)), each == parts, each))


def _tensor(view: ArrayView, mesh: MeshView, *, is_cpu: bool) -> Tensor:
    is_summary = view.groups > 1  # its bytes are those of all its arrays
    of_all = 1 if is_summary else max(1, view.count)
    return Tensor(
        name=view.name,
        role=view.role,
        shape=view.shape,
        dtype=view.dtype,
        parts=_parts_on(mesh, view),
        bytes_global=view.bytes_global // of_all,
        bytes_per_device=view.bytes_per_device // of_all,
        count=1 if is_summary else apart(view.name, view.count),
        device_ids=view.device_ids,
        groups=view.groups,
        is_on_host=is_in_host_memory(view.memory_kind, is_cpu=is_cpu),
    )


def _parts_on(mesh: MeshView, view: ArrayView) -> Parts | None:
    """Return the sharding of an array in axes of this mesh, even if it names others; None if it has none."""
    if view.mesh == mesh:
        return view.parts
    if frozenset(view.device_ids) != mesh.positions.keys():
        return None
    if view.groups > 1:
        return () if view.parts is not None and not any(view.parts) else None
    spans = slices(view)
    if spans is None:
        return None
    found = []
    taken: set[str] = set()
    for dimension in range(len(view.shape)):
        axes = _dividing(mesh, {device: span[dimension] for device, span in spans.items()})
        if axes is None or not taken.isdisjoint(axes):
            return None
        taken.update(axes)
        found.append(axes)
    return tuple(found)


def is_mapped(tensors: Iterable[Tensor], mesh: MeshView) -> bool:
    """Return whether all arrays on the mesh have one row for each of its devices."""
    axes = [(name, size) for name, size in mesh.axes if size > 1]
    on_mesh = [each for each in tensors if each.name is not None and each.parts is not None and each.shape]
    rows = [(each.shape[0], (each.parts or ((),))[0]) for each in on_mesh]
    return len(axes) == 1 and bool(rows) and all(row == (axes[0][1], (axes[0][0],)) for row in rows)


def _dividing(mesh: MeshView, spans: dict[int, Span]) -> tuple[str, ...] | None:
    """Return the axes that divide a dimension in this way, the slowest first; None if none do."""
    place_of = {span: i for i, span in enumerate(sorted(set(spans.values())))}
    index = [place_of[spans[device]] for device in mesh.device_ids]
    strides: dict[str, int] = {}
    stride = len(mesh.device_ids)
    for name, size in mesh.axes:
        stride //= size
        if size > 1 and index[stride] != index[0]:
            strides[name] = index[stride] - index[0]
    ordered = sorted(strides, key=lambda name: -strides[name])
    sizes = dict(mesh.axes)
    expected = [0] * len(index)
    for place, at in enumerate(product(*(range(size) for _, size in mesh.axes))):
        coordinates = dict(zip(sizes, at, strict=True))
        for name in ordered:
            expected[place] = expected[place] * sizes[name] + coordinates[name]
    return tuple(ordered) if index == expected and len(place_of) == prod(sizes[n] for n in ordered) else None
