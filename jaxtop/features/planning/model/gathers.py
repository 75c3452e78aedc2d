"""Arrays that the program of the step gathers again and again, and what it saves to gather them once."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from jaxtop.features.planning.model.arguments import spec_in_words
from jaxtop.features.planning.model.plan import Move, ShardingRule
from jaxtop.features.planning.model.roles import BATCH, OPTIMIZER, PARAMETERS, axes_in, shapes_of, without
from jaxtop.features.planning.model.sharding import local_shape, sizes_of
from jaxtop.features.planning.model.times.links import cost_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import Exchange, Parts, Tensor, Today

# Arrays of these roles are other ones in each step.
_CHANGING = (PARAMETERS, OPTIMIZER, "gradients", BATCH)
Shape = tuple[int, ...]
# Arrays by shape, then by whether they are parameters, and the number of their layers.
_Whole = dict[Shape, dict[tuple[bool, int], list["Tensor"]]]


@dataclass
class _GatheredArrays:
    """Arrays of one shape that a launch gathers over the same axes: how often in all, and what it takes."""

    axes: tuple[str, ...]
    tensors: list[Tensor]
    # The number of layers in each of them, which are gathered one by one.
    layers: int = 1
    times: float = 0.0
    ms: float = 0.0

    @property
    def largest(self) -> Tensor:
        return self.tensors[0]

    @property
    def each(self) -> float:
        """How often each of the arrays is gathered."""
        return self.times / sum(tensor.count for tensor in self.tensors)

    @property
    def spec(self) -> str:
        """Where they lie once they are gathered."""
        return spec_in_words(self.gathered, len(self.largest.shape))

    @property
    def gathered(self) -> Parts:
        return without(self.largest.parts or (), self.axes)

    def adds_bytes(self, mesh: Axes) -> int:
        """Return the bytes on each device that whole copies take in addition to the pieces."""
        copies = prod(size for axis, size in mesh if axis in self.axes)
        return sum(tensor.bytes_per_device * tensor.count for tensor in self.tensors) * (copies - 1)


def gathered(today: Today) -> Iterator[Move]:
    """Yield the moves that gather arrays once: parameters once a step, arrays that never change for good."""
    found = list(_found(today))
    again = [each for each in found if each.largest.role == PARAMETERS and each.each >= 2]
    if again:
        most = max(again, key=lambda each: each.ms)
        count = sum(len(each.tensors) for each in again)
        more = f", and {count - 1} more alike" * (count > 1)
        yield Move(
            f"Gather parameters once a step instead of {round(most.each)} times",
            f"jax.lax.with_sharding_constraint({most.largest.name}, {most.spec}) where the step begins{more}",
            -sum(each.adds_bytes(today.axes) for each in again),
            sum(each.ms * (1 - 1 / each.each) for each in again),
            "the program gathers them for each use, such as forward and backward",
        )
    for each in found:
        if each.largest.role not in _CHANGING:
            was = spec_in_words(each.largest.parts, len(each.largest.shape))
            yield Move(
                f"Hold {each.largest.name} whole instead of gathering it in each step",
                f"{each.largest.name}: {was} → {each.spec}",
                -each.adds_bytes(today.axes),
                each.ms,
                "each step gathers it; this is for arrays that no step changes",
                tuple(ShardingRule(tensor.name or "", parts=each.gathered) for tensor in each.tensors),
            )


def _found(today: Today) -> Iterable[_GatheredArrays]:
    """Return the arrays that all-gathers of the program put together."""
    found: dict[tuple[tuple[str, ...], Shape], _GatheredArrays] = {}
    # By axes, then by shape: the arrays that have it once they are gathered over these axes, or layers of it.
    whole: dict[tuple[str, ...], _Whole] = {}
    for exchange in today.exchanges:
        ms = _ms(today, exchange)
        if exchange.kind != "all-gather" or not exchange.axes or ms is None:
            continue
        matched = []
        for shape in map(sizes_of, shapes_of(exchange.shape)):
            if exchange.axes not in whole:
                whole[exchange.axes] = _whole(today, exchange.axes)
            alike = found.get((exchange.axes, shape)) or _arrays_of_shape(whole, exchange.axes, shape)
            if alike is not None:
                found[exchange.axes, shape] = alike
                matched.append((alike, prod(shape)))
        for alike, elements in matched:
            alike.times += exchange.times / alike.layers
            alike.ms += ms * elements / sum(size for _, size in matched)
    return found.values()


def _whole(today: Today, axes: tuple[str, ...]) -> _Whole:
    """Return the arrays that these axes divide, by their shape without them, and by that of their layers."""
    sizes = dict(today.axes)
    found: _Whole = {}
    keys: dict[tuple[Shape, Parts], list[tuple[Shape, int]]] = {}
    for tensor in today.tensors:
        parts = tensor.parts or ()
        if not tensor.name or tensor.groups > 1 or not {*axes}.issubset(axes_in(parts)):
            continue
        kind = tensor.shape, parts
        if kind not in keys:
            local = local_shape(tensor.shape, without(parts, axes), sizes)
            one, layer = sizes_of(local), sizes_of(local[1:])
            keys[kind] = [(one, 1)] + [(layer, local[0])] * (layer != one and local[:1] != (0,))
        for shape, layers in keys[kind]:
            of_shape = found.setdefault(shape, {})
            of_shape.setdefault((tensor.role == PARAMETERS, layers), []).append(tensor)
    return found


def _arrays_of_shape(
    whole: Mapping[tuple[str, ...], _Whole], axes: tuple[str, ...], shape: Shape
) -> _GatheredArrays | None:
    """Return the arrays that have this shape once they are gathered over these axes, or layers of it.

    Moments of an optimizer have the shapes of its parameters, and it is the parameters that a step gathers.
    """
    found = whole[axes].get(shape)
    if not found:
        return None
    (_, layers), tensors = max(found.items(), key=lambda each: each[0])
    return _GatheredArrays(axes, sorted(tensors, key=lambda each: -each.bytes_per_device), layers)


def _ms(today: Today, exchange: Exchange) -> float | None:
    """Return what a collective takes of a step: as measured, or by the costs of its links."""
    took = exchange.transfer_us
    if took is None:
        cost = cost_of(today, today.axes, exchange.axes or (), exchange.kind, exchange.bytes)
        took = None if cost is None else cost.total_us
    return None if took is None else took * exchange.times * today.launches_per_step / 1000
