"""The collectives that activations cause over an axis that newly divides matrices."""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.features.planning.model.roles import is_window, sides_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.features.planning.model.plan import Tensor
    from jaxtop.features.planning.model.roles import Layers


class Total(NamedTuple):
    """Bytes of collectives of one kind together, and their number."""

    bytes: float
    times: float


# By what causes them, kind and axes.
Totals = dict[tuple[str, str, tuple[str, ...]], Total]


class DividedMatrix(NamedTuple):
    """A matrix that an axis divides in one dimension."""

    tensor: Tensor
    number: int
    axis: str


def activations(
    divided: Sequence[DividedMatrix], rows: float, layers: Layers, of_experts: frozenset[str]
) -> Totals:
    """Return what these matrices cause in a step, for the rows of a batch on a device."""
    of_axes: defaultdict[str, list[DividedMatrix]] = defaultdict(list)
    for each in divided:
        of_axes[each.axis].append(each)
    totals: Totals = {}
    for axis, members in of_axes.items():
        alone = _alone(members, layers)
        for each in members:
            tensor = each.tensor
            width = tensor.bytes_global / max(1, prod(tensor.shape))
            caused = _caused_by_experts(each) if axis in of_experts else _caused(each, layers, alone)
            for cause, kind, often, values in caused:
                before = totals.get((cause, kind, (axis,)), Total(0.0, 0.0))
                totals[cause, kind, (axis,)] = Total(
                    before.bytes + tensor.count * often * rows * values * width,
                    before.times + tensor.count * often,
                )
    return totals


def _caused_by_experts(each: DividedMatrix) -> Iterator[tuple[str, str, float, float]]:
    """Yield in words what a matrix of experts causes, its kind, how often, and the values of a row."""
    yield "exchange of tokens with experts", "all-to-all", 2.0, each.tensor.shape[_other_dimension(each, 1)]


def _caused(each: DividedMatrix, layers: Layers, alone: float) -> Iterator[tuple[str, str, float, float]]:
    """Yield the same of another matrix.

    A divided result is needed whole, forward and backward, unless the next matrix takes it divided.
    """
    tensor, number = each.tensor, layers.layers_in(each.tensor) or 1
    if each.number == 0 and number > 1:
        width = tensor.shape[_other_dimension(each, 1)]
        yield "activations passed on between stages", "collective-permute", 2.0 / number, width
        return
    first = 1 if number > 1 else 0
    other = _other_dimension(each, first)
    yield "reductions of activations", "all-reduce", number, tensor.shape[other]
    if alone and other == sides_of(tensor, first)[0]:
        values = prod(tensor.shape[i] for i in range(first, len(tensor.shape)) if i != other)
        values = tensor.shape[-1] if is_window(tensor) else values
        yield "gathering of divided results", "all-gather", 2.0 * number * alone, values


def _alone(divided: Sequence[DividedMatrix], layers: Layers) -> float:
    """Return the share of divided results that no matrix takes as they are: one with divided rows does."""
    results = taken = 0
    for each in divided:
        number = layers.layers_in(each.tensor) or 1
        first = 1 if number > 1 else 0
        if _other_dimension(each, first) == sides_of(each.tensor, first)[0]:
            results += each.tensor.count * number
        else:
            taken += each.tensor.count * number
    return max(0.0, 1 - taken / results) if results else 0.0


def _other_dimension(each: DividedMatrix, first: int) -> int:
    """Return the dimension on the other side of the matrix, seen from the one that is divided."""
    others = [side for side in sides_of(each.tensor, first) if side != each.number]
    return max(others, key=lambda side: each.tensor.shape[side], default=0)
