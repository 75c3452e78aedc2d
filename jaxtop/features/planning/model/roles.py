"""The roles of the arrays of a run: the batch and the axes that divide it, parameters, layers, experts."""

from __future__ import annotations

import re
from collections import Counter
from math import prod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop.features.planning.model.plan import Parts, PlacedArray, Tensor, Today

# The roles that an agent finds by names.
PARAMETERS, OPTIMIZER, BATCH = "parameters", "optimizer", "batch"
# Axes that divide the batch by these names, where no array of the batch is named.
_BATCH_NAMES = frozenset({"data", "batch", "dp", "fsdp", "replica", "replicas"})


# Axes of experts by these beginnings of their names, where their size is 1 today.
_EXPERT_NAMES = ("expert", "ep", "moe")
_SHAPE = re.compile(r"[a-z]+\d*[a-z0-9]*\[([\d,]*)\]")
# Kinds by which tokens go to experts.
EXCHANGED = ("all-to-all", "ragged-all-to-all")


class Layers(NamedTuple):
    """The number of layers that share arrays, along their first dimension; 0 if there is no such number."""

    number: int

    def layers_in(self, tensor: Tensor) -> int:
        """Return the layers in an array; 0 if it is one array for itself."""
        return self.number if len(tensor.shape) > 2 and tensor.shape[0] == self.number else 0


class Pipeline(NamedTuple):
    """An axis whose devices have some layers each, and the parts in which a batch passes through them."""

    axis: str
    parts: int

    def rounds(self, sizes: Mapping[str, int]) -> int:
        """Return how often a device computes in a pass: until the last part is through."""
        return self.parts + sizes.get(self.axis, 1) - 1


def axes_in(parts: Parts | None) -> Iterable[str]:
    return (axis for of_dimension in parts or () for axis in of_dimension)


def divisor(parts: Parts | None, sizes: Mapping[str, int], but: Iterable[str] = ()) -> int:
    """Return into how many pieces these axes cut an array, some axes left out."""
    left_out = frozenset(but)
    return prod(sizes.get(axis, 1) for axis in axes_in(parts) if axis not in left_out)


def without(parts: Parts, axes: Iterable[str]) -> Parts:
    """Return a sharding without these axes."""
    left_out = frozenset(axes)
    return tuple(tuple(axis for axis in entry if axis not in left_out) for entry in parts)


def batch_axes(today: Today, placed: Sequence[PlacedArray]) -> frozenset[str]:
    """Return the axes that divide the batch, today or on a candidate; by their names if needed."""
    divided = [each.parts for each in today.tensors if each.role == BATCH]
    divided += [each.parts for each in placed if each.tensor.role == BATCH]
    found = frozenset(axis for parts in divided for axis in axes_in(parts))
    return found or frozenset(name for name, _ in today.axes if name.lower() in _BATCH_NAMES)


def parameters(placed: Sequence[PlacedArray]) -> list[PlacedArray]:
    """Return the parameters: by their role, else the arrays that the optimizer has moments of."""
    found = [each for each in placed if each.tensor.role == PARAMETERS]
    if found:
        return found
    moments = Counter(each.tensor.shape for each in placed if each.tensor.role == OPTIMIZER)
    return [
        each
        for each in placed
        if each.tensor.role is None and each.tensor.name and moments[each.tensor.shape]
    ]


def is_window(tensor: Tensor) -> bool:
    """Return whether an array is the window of a convolution: square, with channels last."""
    return len(tensor.shape) > 3 and tensor.shape[0] == tensor.shape[1]


def sides_of(tensor: Tensor, first: int) -> tuple[int, int]:
    """Return the dimensions of what comes into a matrix and what goes out, heads and windows left out."""
    last = len(tensor.shape) - 1
    return (last - 1 if is_window(tensor) else min(first, last), last)


def layers_of(tensors: Sequence[Tensor]) -> Layers:
    """Return the number of layers in a loop: a first dimension that arrays of two shapes share.

    A first dimension that is the largest of its array is a width, as in the heads of an attention.
    """
    shapes = {
        each.shape
        for each in tensors
        if len(each.shape) > 2 and 1 < each.shape[0] <= max(each.shape[1:]) and not is_window(each)
    }
    number, count = max(
        Counter(shape[0] for shape in shapes).items(), key=lambda entry: entry[1], default=(0, 0)
    )
    return Layers(number if count > 1 else 0)


def pipeline_of(today: Today, listed: Sequence[PlacedArray]) -> Pipeline | None:
    """Return the pipeline of a run: a loop passes results on along an axis that divides layers."""
    sizes = dict(today.axes)
    axes = {
        axis
        for each in listed
        if len(each.tensor.shape) > 2 and each.tensor.parts
        for axis in each.tensor.parts[0]
    }
    for each in today.exchanges:
        if each.kind != "collective-permute" or each.times < 2:
            continue
        # With one device along the axis, the loop passes results on to itself.
        for axis in sorted(axes.intersection(each.axes or ()) if each.axes else axes):
            parts = each.times - sizes.get(axis, 1) + 1
            if parts > 0 and (each.axes == (axis,) or (each.axes == () and sizes.get(axis, 1) == 1)):
                return Pipeline(axis, parts)
    return None


def expert_axes(today: Today, of_batch: frozenset[str]) -> frozenset[str]:
    """Return the axes of the batch over which tokens go to experts: these matrices are not gathered."""
    used = {axis for each in today.exchanges if each.kind in EXCHANGED for axis in each.axes or ()}
    named = {axis for axis, size in today.axes if size == 1 and axis.lower().startswith(_EXPERT_NAMES)}
    return of_batch & (used | named)


def rows_of(today: Today, sizes: Mapping[str, int], of_batch: frozenset[str]) -> float | None:
    """Return the rows of a batch on one device: what its matrices are multiplied with; None if unknown.

    In a convolution each layer has its own rows; their mean follows from the operations of a training step.
    """
    batch = [each for each in today.tensors if each.role == BATCH and each.shape]
    found = [
        prod(each.shape if each.dtype.startswith(("int", "uint")) else each.shape[:-1] or (1,))
        for each in batch
    ]
    if not found:
        return None
    rows = float(max(found))
    windows = sum(prod(each.shape) * each.count for each in today.tensors if _is_parameter_window(each))
    flops = (today.program.flops if today.program else None) or 0
    if windows and flops and trains(today):
        rows = min(rows, flops * today.launches_per_step * len(today.device_ids) / (6 * windows))
    return rows / prod(sizes.get(axis, 1) for axis in of_batch)


def _is_parameter_window(tensor: Tensor) -> bool:
    return tensor.role == PARAMETERS and is_window(tensor)


def trains(today: Today) -> bool:
    """Return whether the run has the state of an optimizer, so that gradients are reduced."""
    return any(each.role == OPTIMIZER for each in today.tensors)


def shapes_of(text: str) -> list[tuple[int, ...]]:
    """Return the dimensions of each part of a shape in HLO, such as `(f32[32,64], f32[])`."""
    return [tuple(int(each) for each in dims.split(",") if each) for dims in _SHAPE.findall(text)]
