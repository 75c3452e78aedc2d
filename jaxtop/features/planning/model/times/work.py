"""The cost of computing on another mesh, relative to today: operations, and bytes that memory moves.

A device multiplies the rows of its batch with the matrices that it holds. It reads and writes these matrices
however few rows there are, and it updates the state that it holds: the batch does not divide these bytes.
"""

from __future__ import annotations

from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.features.planning.model.roles import (
    OPTIMIZER,
    batch_axes,
    divisor,
    expert_axes,
    layers_of,
    parameters,
    pipeline_of,
    rows_of,
    trains,
    without,
)
from jaxtop.features.planning.model.sharding import local_shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import CompiledCandidate, PlacedArray, Tensor, Today
    from jaxtop.features.planning.model.roles import Layers

# A step touches a matrix, and the rows on both its sides, for the result, the gradient of the rows and that
# of the matrix. An update reads gradients, and reads and writes the state, of which parameters are a part.
MATRIX_TRIPS, STATE_TRIPS = 3.0, 2.5
# Operations that take as long as moving a byte, where nothing says it: of processors, and of accelerators.
CPU_BALANCE, BALANCE = 10.0, 200.0


# Memory may be that much slower or faster, relative to the operations, than the balance says.
UNCERTAIN = 2.0


class Ratio(NamedTuple):
    """What computing takes relative to today, between bounds, and how that was found.

    `flops` are a device's operations in a step.
    """

    value: float
    low: float
    high: float
    flops: float
    how: str


class _Shards(NamedTuple):
    """What a device works on: elements of its matrices, with their rows; bytes that it moves at least.

    `activation_bytes` is None where the rows of a batch are unknown.
    """

    multiplied: float
    matrix_bytes: float
    state_bytes: float
    activation_bytes: float | None


def work_ratio(
    today: Today, axes: Axes, placed: Sequence[PlacedArray], compiled: CompiledCandidate | None = None
) -> Ratio:
    """Return how much longer computing takes on a mesh than today.

    On devices that share cores, the work of all of them counts.
    """
    old = _shards(today, dict(today.axes), placed, is_today=True)
    new = _shards(today, dict(axes), placed, is_today=False)
    program, launches = today.program, today.launches_per_step
    flops_old = ((program.flops if program else None) or 0) * launches
    multiplied = new.multiplied / old.multiplied
    flops = flops_old * multiplied
    how = "operations and bytes of memory by the shards of a device"
    if compiled is not None and not compiled.why_not and compiled.flops and flops_old:
        flops = compiled.flops * launches
        how = "operations as compiled, bytes of memory by the shards of a device"
    touched = ((program.accessed_bytes if program else None) or 0) * launches
    bytes_old, bytes_new = _moved(old, new, touched)
    balance = today.balance or (CPU_BALANCE if today.platform == "cpu" else BALANCE)
    devices = 1.0
    if today.shared_cores is not None:
        devices = prod(size for _, size in axes) / max(1, prod(size for _, size in today.axes))
        how += f", for all devices together, as they share {today.shared_cores} cores"

    def ratio(balance: float) -> float:
        before = flops_old + balance * bytes_old
        return devices * (flops + balance * bytes_new) / before if before else devices * multiplied

    low, high = sorted((ratio(balance / UNCERTAIN), ratio(balance * UNCERTAIN)))
    return Ratio(ratio(balance), low, high, flops, how)


def _moved(old: _Shards, new: _Shards, touched: float) -> tuple[float, float]:
    """Return the bytes that memory moves, today and on the candidate.

    `touched` is what today's program moves. What it moves more than the formulas say, it moves more of
    matrices and activations alike; without known rows, it is all of activations.
    """
    old_matrices, new_matrices = MATRIX_TRIPS * old.matrix_bytes, MATRIX_TRIPS * new.matrix_bytes
    old_state, new_state = STATE_TRIPS * old.state_bytes, STATE_TRIPS * new.state_bytes
    if old.activation_bytes is None or new.activation_bytes is None:
        rest = max(0.0, touched - old_matrices - old_state)
        rows = (
            new.multiplied * old.matrix_bytes / (old.multiplied * new.matrix_bytes)
            if new.matrix_bytes
            else 1.0
        )
        return old_matrices + old_state + rest, new_matrices + new_state + rest * rows
    expected = old_matrices + MATRIX_TRIPS * old.activation_bytes
    scale = max(0.0, touched - old_state) / expected if touched and expected else 1.0
    return (
        old_state + scale * expected,
        new_state + scale * (new_matrices + MATRIX_TRIPS * new.activation_bytes),
    )


def _shards(
    today: Today, sizes: Mapping[str, int], placed: Sequence[PlacedArray], *, is_today: bool
) -> _Shards:
    of_batch = batch_axes(today, placed)
    gathered = of_batch - expert_axes(today, of_batch)
    rows = rows_of(today, sizes, of_batch)
    listed = parameters(placed)
    layers = layers_of([each.tensor for each in listed])
    pieces = cache(partial(divisor, sizes=sizes))
    rest = cache(partial(without, axes=of_batch))
    multiplied = matrices = activations = 0.0
    for each in listed:
        tensor, parts = each.tensor, (each.tensor.parts if is_today else each.parts) or ()
        if len(tensor.shape) < 2:
            continue
        elements = prod(tensor.shape)
        multiplied += elements * tensor.count / pieces(parts, but=of_batch)
        matrices += tensor.bytes_global * tensor.count / pieces(parts, but=gathered)
        width = tensor.bytes_global / max(1, elements)
        sides = _sides(tensor, local_shape(tensor.shape, rest(parts), sizes), layers)
        activations += (rows or 0.0) * width * tensor.count * sides
    if (pipeline := pipeline_of(today, listed)) is not None:
        idle = pipeline.rounds(sizes) / pipeline.parts
        multiplied, matrices, activations = multiplied * idle, matrices * idle, activations * idle
    state = [*listed, *(each for each in placed if each.tensor.role == OPTIMIZER)] if trains(today) else []
    return _Shards(
        (multiplied or 1.0) / prod(sizes.get(axis, 1) for axis in of_batch),
        matrices,
        sum((each.tensor if is_today else each).bytes_per_device * each.tensor.count for each in state),
        None if rows is None else activations,
    )


def _sides(tensor: Tensor, local: Sequence[int], layers: Layers) -> float:
    """Return the values that a row has on both sides of a matrix on one device, in all its layers.

    The larger of the first and the last dimension is one side, the others together are the other.
    """
    number = layers.layers_in(tensor) or 1
    first = 1 if number > 1 else 0
    alone = first if tensor.shape[first] >= tensor.shape[-1] else len(tensor.shape) - 1
    others = prod(local[i] for i in range(first, len(local)) if i != alone)
    return number * float(local[alone] + others)
