"""The meshes that a plan compares: those asked for, or a few that are worth a look."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from jaxtop.features.planning.model.arguments import mesh_as_typed
from jaxtop.features.planning.model.plan import CannotPlan
from jaxtop.features.planning.model.roles import OPTIMIZER, PARAMETERS, axes_in, batch_axes
from jaxtop.features.planning.model.sharding import axes_of_rule, of_role, placing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.array_kinds import RunArrays
    from jaxtop.features.planning.model.plan import PlanRequest, ShardingRule, Tensor, Today

# A mesh, and all rules that apply on it.
Choice = tuple["Axes", "tuple[ShardingRule, ...]"]

# What is added to a mesh with one axis, to divide parameters within a layer.
MODEL_AXIS = "model"
# Without a wish, as many ways to share out the devices are tried, besides today's.
MAX_PROPOSED = 12
# Many axes can share out many devices in millions of ways, of which the likely ones are tried.
MAX_TRIED = 5_000


def meshes(arrays: RunArrays, asked: PlanRequest) -> list[Choice]:
    """Return the meshes to compare with all rules that apply on each, today's layout first.

    Raises:
        CannotPlan: What is asked does not exist, or divides nothing.
    """
    today = arrays.kinds(_all_axes(arrays.today, asked), asked.rules)  # refuses unknown arrays and axes
    if asked.meshes:
        for axes in asked.meshes:
            _check(today, axes, asked)
        choices = [(axes, asked.rules) for axes in asked.meshes]
    elif asked.devices is not None:
        choices = [(axes, asked.rules) for axes in _with_devices(today, asked.devices, asked)]
        choices += _with_rules(today, choices)
    elif asked.every:
        choices = [
            (axes, asked.rules) for n in _divisors(_devices(today)) for axes in _usable(today, n, asked)
        ]
        choices += _with_rules(today, choices)
    elif asked.rules:
        choices = []
    else:
        choices = _proposed(today, asked)
    if not asked.meshes:
        choices.sort(key=lambda choice: _newly_used(today, choice[0]))  # only the first ones may be tried
    lacks_an_axis = any(axis not in dict(today.axes) for rule in asked.rules for axis in axes_of_rule(rule))
    here = [] if lacks_an_axis else [(today.axes, asked.rules)]
    return _distinct(today, [(today.axes, ()), *here, *choices])


def _devices(today: Today) -> int:
    return len(today.device_ids)


def _all_axes(today: Today, asked: PlanRequest) -> Axes:
    """Return all axes that some candidate has."""
    return tuple({**dict(today.axes), **{axis: size for axes in asked.meshes for axis, size in axes}}.items())


def _check(today: Today, axes: Axes, asked: PlanRequest) -> None:
    """Raise `CannotPlan` if a mesh cannot be used."""
    sizes = dict(axes)
    for rule in asked.rules:
        for axis in axes_of_rule(rule):
            if axis not in sizes:
                raise CannotPlan(
                    f"{rule.pattern} cannot be divided by {axis}: {mesh_as_typed(axes)} lacks that axis"
                )
    if (idle := _idle_axis(today, axes, asked.rules)) is not None:
        raise CannotPlan(_why_idle(today, idle, sizes[idle]))


def _idle_axis(today: Today, axes: Axes, rules: Sequence[ShardingRule]) -> str | None:
    """Return an axis that divides arrays today, but none on this mesh; None if there is none."""
    idle = {axis for axis, size in axes if size > 1}
    for each in placing(today, axes, rules):
        idle.difference_update(axes_in(each.parts))
        if not idle:
            return None
    idle &= {axis for each in today.tensors for axis in axes_in(each.parts)}
    return next((axis for axis, _ in axes if axis in idle), None)


def _why_idle(today: Today, axis: str, size: int) -> str:
    """Return why an axis of this size divides nothing, by the largest array that it divides today."""
    divided = [each for each in today.tensors if any(axis in part for part in each.parts or ())]
    largest = max(divided, key=lambda each: each.bytes_global)
    i = next(i for i, part in enumerate(largest.parts or ()) if axis in part)
    length = f" of {largest.shape[i]}" if i < len(largest.shape) else ""
    return (
        f"{axis}={size} divides no array: dimension {i}{length} of {_called(largest)} is not divisible by it"
    )


def _called(tensor: Tensor) -> str:
    return tensor.name or "an array without a name"


# Ways to share out devices


def _divisors(number: int) -> list[int]:
    return [each for each in range(number, 0, -1) if number % each == 0]


def _shared_out(number: int, names: Sequence[str]) -> Iterator[Axes]:
    """Yield all meshes with these axes and this many devices."""
    if len(names) == 1:
        yield ((names[0], number),)
        return
    for size in _divisors(number):
        for rest in _shared_out(number // size, names[1:]):
            yield ((names[0], size), *rest)


def _likely_first(today: Today, number: int) -> Iterator[Axes]:
    """Yield all meshes with today's axes and this many devices, first those whose axes of size 1 stay so."""
    used = [axis for axis, size in today.axes if size > 1]
    if used:
        for axes in _shared_out(number, used):
            yield tuple((axis, dict(axes).get(axis, 1)) for axis, _ in today.axes)
    for axes in _shared_out(number, [axis for axis, _ in today.axes]):
        if not used or _newly_used(today, axes):
            yield axes


def _newly_used(today: Today, axes: Axes) -> int:
    """Return how many axes have more than one device, but not today."""
    sizes = dict(today.axes)
    return sum(size > 1 and sizes.get(axis, 1) == 1 for axis, size in axes)


def _usable(today: Today, number: int, asked: PlanRequest) -> list[Axes]:
    tried = islice(_likely_first(today, number), MAX_TRIED)
    return [axes for axes in tried if _idle_axis(today, axes, asked.rules) is None]


def _with_devices(today: Today, number: int, asked: PlanRequest) -> list[Axes]:
    if number < 1:
        raise CannotPlan("a mesh has at least 1 device")
    found = _usable(today, number, asked)
    if not found:
        names = " × ".join(axis for axis, _ in today.axes)
        raise CannotPlan(
            f"{number} devices cannot be used: no way to share them out over {names} divides the arrays; "
            f"today there are {_devices(today)}"
        )
    return found


def _proposed(today: Today, asked: PlanRequest) -> list[Choice]:
    """Return other ways to share out today's devices and half of them, and to divide the state further."""
    number = _devices(today)
    here = [(axes, asked.rules) for axes in _usable(today, number, asked)]
    half = [(axes, asked.rules) for axes in _usable(today, number // 2, asked)] if number > 1 else []
    here.sort(key=lambda choice: _distance(today.axes, choice[0]))
    half.sort(key=lambda choice: _distance(today.axes, choice[0]))
    found = [*here[:MAX_PROPOSED], *half[: MAX_PROPOSED // 2]]
    return [*found, *_with_rules(today, [(today.axes, asked.rules)]), *_split(today, asked)]


def _distance(axes: Axes, other: Axes) -> float:
    """Return how much two meshes with the same axes differ."""
    sizes = dict(other)
    return sum(abs(size.bit_length() - sizes.get(axis, 1).bit_length()) for axis, size in axes)


def _with_rules(today: Today, choices: Iterable[Choice]) -> list[Choice]:
    """Return these meshes with the optimizer state, then all of the state divided by an axis of the batch."""
    data = batch_axes(today, ())
    found: list[Choice] = []
    for axes, rules in choices:
        sizes = dict(axes)
        axis = max(
            (each for each in sizes if each in data and sizes[each] > 1), key=sizes.__getitem__, default=None
        )
        if axis is not None:
            optimizer, parameters = of_role(OPTIMIZER, axis), of_role(PARAMETERS, axis)
            if _has_role(today, OPTIMIZER):
                found.append((axes, (*rules, optimizer)))
                if _has_role(today, PARAMETERS):
                    found.append((axes, (*rules, parameters, optimizer)))
            elif _has_role(today, PARAMETERS):
                found.append((axes, (*rules, parameters)))
    return found


def _split(today: Today, asked: PlanRequest) -> list[Choice]:
    """Return the splits of a mesh with one axis into data × model, if that axis divides the batch."""
    number = _devices(today)
    used = [(axis, size) for axis, size in today.axes if size > 1]
    if len(used) != 1 or used[0][0] not in batch_axes(today, ()) or MODEL_AXIS in dict(today.axes):
        return []
    if not _has_role(today, PARAMETERS):
        return []
    rules = [of_role(PARAMETERS, MODEL_AXIS)]
    if _has_role(today, OPTIMIZER):
        rules.append(of_role(OPTIMIZER, MODEL_AXIS))
    splits = [((used[0][0], number // model), (MODEL_AXIS, model)) for model in _divisors(number)[::-1][1:]]
    usable = [axes for axes in splits if _idle_axis(today, axes, rules) is None]
    return [(axes, (*asked.rules, *rules)) for axes in usable[:4]]


def _has_role(today: Today, role: str) -> bool:
    return any(each.role == role and each.name is not None for each in today.tensors)


def _distinct(today: Today, choices: Sequence[Choice]) -> list[Choice]:
    """Return the choices without those that place all arrays as another one does on the same mesh."""
    number = Counter(axes for axes, _ in choices)
    found: dict[object, Choice] = {}
    for axes, rules in choices:
        parts = tuple(each.parts for each in placing(today, axes, rules)) if number[axes] > 1 else ()
        found.setdefault((axes, parts), (axes, rules))
    return list(found.values())
