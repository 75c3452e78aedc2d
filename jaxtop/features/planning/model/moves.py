"""Changes worth making: each is one line of a PartitionSpec, a mesh or `jax.jit`, with what it saves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.meshes import Axes
from jaxtop.base.names import function_of
from jaxtop.features.planning.model.arguments import mesh_in_words, spec_in_words
from jaxtop.features.planning.model.gathers import gathered
from jaxtop.features.planning.model.memory import in_words
from jaxtop.features.planning.model.plan import Candidate, Move, ShardingRule
from jaxtop.features.planning.model.roles import OPTIMIZER, PARAMETERS
from jaxtop.features.planning.model.sharding import of_role
from jaxtop.features.planning.model.times.links import BETWEEN, reach_of
from jaxtop.model.hardware.domains import name_of_domains

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.features.planning.model.plan import PlacedArray, Tensor, Today

# Predicts a mesh with added shardings from the same model as the plan.
Predict = Callable[[Axes, tuple[ShardingRule, ...]], Candidate]

# The least share of the memory or of the step that a move saves.
MIN_SHARE = 0.05
# The most share of the step that a move costs.
MAX_COST = 0.25
# The least bytes that a move saves.
MIN_BYTES = 1 << 20
# The least share of a known limit that a move saves.
MIN_OF_LIMIT = 0.01
# Smaller differences of the step are those of rounding.
_NO_CHANGE = 0.005
MAX_MOVES = 6
# The orders of more axes than this are too many to predict.
_MAX_AXES = 4


class _Base(NamedTuple):
    """Today's layout with its prediction, and how others are predicted."""

    today: Today
    now: Candidate
    predict: Predict


def moves(today: Today, predict: Predict, limit: int | None) -> tuple[Move, ...]:
    """Return the changes of today's layout that save most, in shares of the memory or of the step.

    `limit` is the memory of a device. Changes after which a step would no longer fit are left out.
    """
    now = predict(today.axes, ())
    base = _Base(today, now, predict)
    found = [*_divided(base), *_swapped(base), *_donated(today), *gathered(today)]
    worth = [each for each in found if _is_worth(each, now, limit) and _still_fits(each, now, limit)]
    return tuple(sorted(worth, key=lambda each: -_share(each, now))[:MAX_MOVES])


def _is_worth(move: Move, now: Candidate, limit: int | None) -> bool:
    """Return whether a move saves enough of the memory or of the step, and more than it costs of a step."""
    is_enough = (move.saves_bytes or 0) >= max(MIN_BYTES, MIN_OF_LIMIT * (limit or 0))
    gain = max(_share_of_memory(move, now) * is_enough, _share_of_step(move, now))
    cost = -_share_of_step(move, now)
    return gain >= MIN_SHARE and (now.fits is False or cost <= min(MAX_COST, gain))


def _still_fits(move: Move, now: Candidate, limit: int | None) -> bool:
    held = now.memory_bytes.high if now.memory_bytes else now.state_bytes_per_device
    return limit is None or (move.saves_bytes or 0) >= 0 or held - (move.saves_bytes or 0) <= limit


def _share(move: Move, now: Candidate) -> float:
    """Return the larger of the shares that a move saves of the memory and of the step."""
    return max(_share_of_memory(move, now), _share_of_step(move, now))


def _share_of_memory(move: Move, now: Candidate) -> float:
    held = _held(now)
    return (move.saves_bytes or 0) / held if held else 0.0


def _share_of_step(move: Move, now: Candidate) -> float:
    return (move.saves_ms or 0.0) / now.step_ms.middle if now.step_ms and now.step_ms.middle else 0.0


def _held(candidate: Candidate) -> float:
    memory = candidate.memory_bytes
    return candidate.state_bytes_per_device if memory is None else memory.middle


def _saved(now: Candidate, then: Candidate) -> tuple[int, float | None]:
    """Return the bytes of state on each device and the milliseconds of a step that a candidate saves."""
    held = now.state_bytes_per_device - then.state_bytes_per_device
    if now.step_ms is None or then.step_ms is None:
        return held, None
    ms = now.step_ms.middle - then.step_ms.middle
    return held, 0.0 if abs(ms) < _NO_CHANGE * now.step_ms.middle else ms


def _divided(base: _Base) -> Iterator[Move]:
    """Yield the moves that divide optimizer state, or all of the state, by an axis that replicates it."""
    for roles, what in (
        ((OPTIMIZER,), "the optimizer state"),
        ((OPTIMIZER, PARAMETERS), "parameters and optimizer state"),
    ):
        if not all(_sharded_tensors(base.today, role) for role in roles):
            continue
        axes = _free_axes(base.today, _sharded_tensors(base.today, *roles))
        found = [move for axis in axes if (move := _divided_by(base, axis, what, roles))]
        if found:
            yield max(found, key=lambda move: (move.saves_bytes or 0, move.saves_ms or 0.0))


def _sharded_tensors(today: Today, *roles: str) -> list[Tensor]:
    return [each for each in today.tensors if each.role in roles and each.name and each.parts is not None]


def _free_axes(today: Today, tensors: Sequence[Tensor]) -> list[str]:
    """Return the axes that divide less than half of the bytes of these arrays."""
    total = sum(each.bytes_per_device * each.count for each in tensors)
    found = []
    for axis, size in today.axes:
        divided = sum(
            each.bytes_per_device * each.count
            for each in tensors
            if any(axis in axes for axes in each.parts or ())
        )
        if size > 1 and 2 * divided < total:
            found.append(axis)
    return found


def _divided_by(base: _Base, axis: str, what: str, roles: Sequence[str]) -> Move | None:
    rules = tuple(of_role(role, axis) for role in roles)
    then = base.predict(base.today.axes, rules)
    changed = _changed(base.now.placed, then.placed)
    if not changed:
        return None
    saved, ms = _saved(base.now, then)
    before, after = changed[0]
    dimensions = len(after.tensor.shape)
    was, will = (spec_in_words(each.parts, dimensions) for each in (before, after))
    more = f", and {len(changed) - 1} more alike" * (len(changed) > 1)
    return Move(
        f"Divide {what} by {axis}",
        f"{after.tensor.name}: {was} → {will}{more}",
        saved,
        ms,
        f"today there is a copy on each of the {dict(base.today.axes)[axis]} devices along {axis}"
        f"{_memory(base.now, then)}",
        rules,
    )


def _memory(now: Candidate, then: Candidate) -> str:
    if now.memory_bytes is None or then.memory_bytes is None:
        return ""
    return f"; a step then needs {in_words(*then.memory_bytes)}, today {in_words(*now.memory_bytes)}"


def _changed(
    before: Sequence[PlacedArray], after: Sequence[PlacedArray]
) -> list[tuple[PlacedArray, PlacedArray]]:
    """Return the arrays whose sharding changes, before and after, those that save most first."""
    pairs = [
        (one, other)
        for one, other in zip(before, after, strict=True)
        if one.bytes_per_device != other.bytes_per_device
    ]
    return sorted(
        pairs, key=lambda pair: (pair[1].bytes_per_device - pair[0].bytes_per_device) * pair[0].tensor.count
    )


def _swapped(base: _Base) -> Iterator[Move]:
    """Yield the order of the axes that takes the heavy one from between hosts into them."""
    today, now = base.today, base.now
    across = [axis for axis, _ in today.axes if _crosses_hosts(today, today.axes, axis)]
    heavy = max(across, key=lambda axis: now.communication_ms.get(axis, 0.0), default=None)
    if heavy is None or not now.communication_ms.get(heavy) or len(today.axes) > _MAX_AXES:
        return
    # An axis that takes longer on the links within hosts would not be faster between them.
    heavier = [axis for axis, ms in now.communication_ms.items() if ms >= now.communication_ms[heavy]]
    found = []
    for axes in permutations(today.axes):
        if not any(_crosses_hosts(today, axes, axis) for axis in heavier if axis in dict(axes)):
            saved, ms = _saved(now, base.predict(axes, ()))
            found.append((ms or 0.0, saved, axes))
    if not found:
        return
    ms, saved, axes = max(found, key=lambda each: each[0])
    domains = name_of_domains(today.platform)
    yield Move(
        f"Change the order of the axes: {heavy} stays within {domains}",
        f"{_make_mesh(today.axes)} → {_make_mesh(axes)}",
        saved,
        ms,
        f"of the axes that cross {domains} today, {heavy} communicates most ({mesh_in_words(today.axes)}, "
        f"{today.devices_per_host} devices in each)",
        axes=axes,
    )


def _make_mesh(axes: Axes) -> str:
    sizes, names = tuple(size for _, size in axes), tuple(name for name, _ in axes)
    return f"jax.make_mesh({sizes}, {names})"


def _crosses_hosts(today: Today, axes: Axes, axis: str) -> bool:
    return reach_of(axes, (axis,), today.devices_per_host) == BETWEEN  # on TPUs: between slices


def _donated(today: Today) -> Iterator[Move]:
    """Yield the donation of state that the step's program returns while the old one is still held."""
    program = today.program
    if program is None or program.alias_bytes is None or not program.output_bytes:
        return
    state = sum(each.bytes_per_device * each.count for each in _sharded_tensors(today, OPTIMIZER, PARAMETERS))
    twice = min(state, program.output_bytes) - program.alias_bytes
    if twice > 0 and (program.argument_bytes or 0) >= 0.9 * state:
        function = function_of(program.name)
        yield Move(
            f"Donate the state to {function}",
            f"jax.jit({function}) → jax.jit({function}, donate_argnums=...), the arguments with the state",
            twice,
            None,
            "its results do not reuse the memory of its arguments: the old and the new state are both held "
            "during the step. Only if nothing reads the old state afterwards",
        )
