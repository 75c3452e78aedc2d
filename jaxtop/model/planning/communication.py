"""The collectives of a step on another mesh: today's with their bytes rescaled, and those that are new.

Gradients are reduced over the axes that divide the batch. Where such an axis also divides a parameter, the
parameter is gathered and its gradient scattered. Other collectives carry activations: the axes that divide
the batch divide them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop.model.planning.plan import Axes, Exchange, Parts, Placed, Tensor, Today

PARAMETERS, OPTIMIZER, BATCH = "parameters", "optimizer", "batch"
# Axes that divide the batch by these names, where no array of the batch is named.
_BATCH_NAMES = frozenset({"data", "batch", "dp", "fsdp", "replica", "replicas"})
_SHAPE = re.compile(r"([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]")
# A smaller collective carries a loss or a metric: its bytes do not depend on the mesh.
SCALAR_BYTES = 64


class Moved(NamedTuple):
    """A collective on a mesh: `bytes` is S as nccl-tests defines it, `times` how often a launch runs it."""

    kind: str
    axes: tuple[str, ...]
    bytes: float
    times: float
    # The line of the script, or why it is expected.
    source: str
    is_derived: bool = False


@dataclass
class Traffic:
    """The collectives of a launch on a mesh, and what was assumed to find them."""

    moved: list[Moved] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)


def traffic(today: Today, axes: Axes, placed: Sequence[Placed]) -> Traffic:
    """Return the collectives of a launch on another mesh."""
    return _Planner(today, axes, placed).traffic()


def batch_axes(today: Today, placed: Sequence[Placed]) -> frozenset[str]:
    """Return the axes that divide the batch, today or on a candidate; by their names if need be."""
    divided = [each.parts for each in today.tensors if each.role == BATCH]
    divided += [each.parts for each in placed if each.tensor.role == BATCH]
    found = frozenset(axis for parts in divided for axis in _axes_in(parts))
    return found or frozenset(name for name, _ in today.axes if name.lower() in _BATCH_NAMES)


def _axes_in(parts: Parts | None) -> Iterable[str]:
    return (axis for of_dimension in parts or () for axis in of_dimension)


def divisor(parts: Parts | None, sizes: Mapping[str, int], but: Iterable[str] = ()) -> int:
    """Return into how many pieces these axes cut an array, some axes left out."""
    left_out = frozenset(but)
    return prod(sizes.get(axis, 1) for axis in _axes_in(parts) if axis not in left_out)


class _Planner:
    def __init__(self, today: Today, axes: Axes, placed: Sequence[Placed]) -> None:
        self.today, self.placed = today, placed
        self.old, self.new = dict(today.axes), dict(axes)
        self.order = [name for name, _ in axes]
        self.of_batch = batch_axes(today, placed)
        self.parameters = [each for each in placed if each.tensor.role == PARAMETERS]
        self.result = Traffic()

    def traffic(self) -> Traffic:
        seen_gradients = False
        for each in self.today.exchanges:
            if each.axes is None:
                self._assume(f"{each.op} is left as it is: the axes of its groups are unknown")
                self._add(each, (), float(each.bytes))
            elif self._is_gradient(each):
                seen_gradients = True
                self._gradient(each)
            else:
                self._activation(each)
        if not seen_gradients:
            self._new_gradients()
        self._newly_gathered()
        self._new_activations()
        return self.result

    def _add(self, each: Exchange, axes: tuple[str, ...], size: float) -> None:
        if axes or each.axes is None:
            self.result.moved.append(Moved(each.kind, axes, size, each.times, each.line or each.op))

    def _derive(self, kind: str, axes: Iterable[str], size: float, times: float, why: str) -> None:
        named = self._sized(axes)
        if named and size > 0:
            self.result.moved.append(Moved(kind, named, size, times, why, is_derived=True))
            self._assume(f"{why} over {'+'.join(named)}: today's program has none, so it is derived")

    def _assume(self, text: str) -> None:
        if text not in self.result.assumptions:
            self.result.assumptions.append(text)

    def _sized(self, axes: Iterable[str]) -> tuple[str, ...]:
        """Return those of the axes that have a size on the candidate, in the order of its mesh."""
        names = frozenset(axes)
        return tuple(name for name in self.order if name in names and self.new[name] > 1)

    def _is_gradient(self, each: Exchange) -> bool:
        """Return whether it reduces gradients: over axes of the batch only, and as large as parameters."""
        return (
            each.kind in ("all-reduce", "reduce-scatter")
            and each.bytes > SCALAR_BYTES
            and bool(self.parameters)
            and self.of_batch.issuperset(each.axes or ())
        )

    def _gradient(self, each: Exchange) -> None:
        """Add the reduction of gradients over all axes that divide the batch."""
        scale = self._scale_of_parts(each)
        self._add(each, self._sized(self.of_batch), each.bytes * scale)

    def _scale_of_parts(self, each: Exchange) -> float:
        """Return by what the bytes change: each part changes like the parameter that it matches."""
        parts = shapes_of(each.shape)
        total = sum(prod(dims) for dims in parts) or 1
        return (
            sum(prod(dims) / total * self._scale_of(dims) for dims in parts) if parts else self._mean_scale()
        )

    def _scale_of(self, dims: tuple[int, ...]) -> float:
        found = self._parameter_of(dims)
        return self._mean_scale() if found is None else self._scale(found)

    def _scale(self, each: Placed) -> float:
        batch = self.of_batch
        return divisor(each.tensor.parts, self.old, batch) / divisor(each.parts, self.new, batch)

    def _mean_scale(self) -> float:
        today = sum(_elements(each.tensor) / divisor(each.tensor.parts, self.old, self.of_batch)
                    for each in self.parameters)  # fmt: skip
        new = sum(_elements(each.tensor) / divisor(each.parts, self.new, self.of_batch)
                  for each in self.parameters)  # fmt: skip
        return new / today if today else 1.0

    def _parameter_of(self, dims: tuple[int, ...]) -> Placed | None:
        """Return a parameter whose shard, or one layer of it, has these dimensions today in any order."""
        wanted = _key(dims)
        for each in self.parameters:
            shape = list(each.tensor.shape)
            for number, of_dimension in enumerate(each.tensor.parts or ()):
                shape[number] //= prod(
                    self.old.get(axis, 1) for axis in of_dimension if axis not in self.of_batch
                )
            local = list(each.tensor.shape)
            for number, of_dimension in enumerate(each.tensor.parts or ()):
                local[number] //= prod(self.old.get(axis, 1) for axis in of_dimension)
            if wanted in {_key(shape), _key(shape[1:]), _key(local), _key(local[1:])}:
                return each
        return None

    def _activation(self, each: Exchange) -> None:
        """Add a collective of today with the activations or parameters that it carries rescaled."""
        axes = self._sized(each.axes or ())
        if each.bytes <= SCALAR_BYTES:
            self._add(each, self._sized({*(each.axes or ()), *self.of_batch}), each.bytes)
            return
        if each.kind == "all-gather" and self.of_batch.issuperset(each.axes or ()) and self.parameters:
            dims = shapes_of(each.shape)
            found = self._parameter_of(dims[0]) if len(dims) == 1 else None
            scale = self._mean_scale() if found is None else self._scale(found)
            self._add(each, axes, each.bytes * scale)
            return
        own = (
            frozenset(each.axes or ())
            if each.kind not in ("all-to-all", "ragged-all-to-all")
            else frozenset()
        )
        scale = prod(self.old.get(axis, 1) / self.new.get(axis, 1) for axis in self.of_batch - own)
        self._add(each, axes, each.bytes * scale)

    def _new_gradients(self) -> None:
        """Add the reduction of all gradients where today's program reduces none."""
        if not any(each.tensor.role == OPTIMIZER for each in self.placed) or not self.parameters:
            return
        size = sum(
            each.tensor.count * each.tensor.bytes_global / divisor(each.parts, self.new, self.of_batch)
            for each in self.parameters
        )
        per_launch = 1 / max(self.today.launches_per_step, 1e-9)
        self._derive("all-reduce", self.of_batch, size, per_launch, "reduction of the gradients")

    def _newly_gathered(self) -> None:
        """Add the gathering of parameters that an axis of the batch divides, but not today."""
        sizes: dict[tuple[str, ...], float] = {}
        for each in self.parameters:
            before = {axis for axis in _axes_in(each.tensor.parts) if self.old.get(axis, 1) > 1}
            axes = self._sized(
                axis for axis in _axes_in(each.parts) if axis in self.of_batch and axis not in before
            )
            if axes:
                gathered = (
                    each.tensor.count
                    * each.bytes_per_device
                    * divisor(each.parts, self.new, ())
                    / divisor(each.parts, self.new, axes)
                )
                sizes[axes] = sizes.get(axes, 0.0) + gathered
        for axes, size in sizes.items():
            self._derive(
                "all-gather", axes, size, 2.0, "gathering of divided parameters, forward and backward"
            )

    def _new_activations(self) -> None:
        """Add a reduction of activations for each matrix that an axis divides, but not today."""
        rows = self._rows()
        sizes: dict[tuple[str, ...], float] = {}
        for each in self.parameters:
            shape, parts = each.tensor.shape, each.parts or ()
            new = [
                (number, axis)
                for number, of_dimension in enumerate(parts)
                for axis in of_dimension
                if axis not in self.of_batch and self.old.get(axis, 1) == 1 and self.new.get(axis, 1) > 1
            ]
            if not new or len(shape) < 2:
                continue
            if rows is None:
                self._assume(
                    "activations over new axes are left out: the number of rows of a batch is unknown"
                )
                return
            axes = self._sized(axis for _, axis in new)
            layers = prod(shape[:-2]) if len(shape) > 2 and new[0][0] >= len(shape) - 2 else 1
            divided = shape[new[0][0]]
            other = prod(shape) / layers / divided
            width = each.tensor.bytes_global / max(1, prod(shape))
            sizes[axes] = sizes.get(axes, 0.0) + each.tensor.count * layers * rows * other * width
        for axes, size in sizes.items():
            per_launch = 1 / max(self.today.launches_per_step, 1e-9)
            self._derive(
                "all-reduce", axes, size, per_launch, "reductions of activations, one for each divided matrix"
            )

    def _rows(self) -> float | None:
        """Return the rows of a batch on one device: what its matrices are multiplied with."""
        found = [
            prod(each.shape if each.dtype.startswith(("int", "uint")) else each.shape[:-1] or (1,))
            for each in self.today.tensors
            if each.role == BATCH and each.shape
        ]
        if not found:
            return None
        return max(found) / prod(self.new.get(axis, 1) for axis in self.of_batch)


def _key(dims: Iterable[int]) -> tuple[int, ...]:
    """Return dimensions in order of size, without those of size 1: a transposed array has the same."""
    return tuple(sorted(each for each in dims if each != 1))


def _elements(tensor: Tensor) -> float:
    return float(prod(tensor.shape) * tensor.count)


def shapes_of(text: str) -> list[tuple[int, ...]]:
    """Return the dimensions of each part of a shape in HLO, such as `(f32[32,64], f32[])`."""
    return [tuple(int(each) for each in dims.split(",") if each) for _, dims in _SHAPE.findall(text)]
