"""The place of each array on the mesh of a candidate, and the bytes that a device then holds."""

from __future__ import annotations

import re
from collections import Counter
from difflib import get_close_matches
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from jaxtop.features.planning.model.plan import CannotPlan, Division, PlacedArray, ShardingRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import Parts, Tensor, Today

_ROLE = "role="
_MARKS = re.compile(r"[\]'\"\\]")
# The bits of an element, in the name of a dtype.
_BITS = re.compile(r"(?:u?int|float|complex|bfloat)(\d+)")


def place(today: Today, axes: Axes, rules: Sequence[ShardingRule] = ()) -> tuple[PlacedArray, ...]:
    """Return all arrays of today on a mesh, with these rules applied in order.

    Raises:
        CannotPlan: A rule matches no array, or names an axis that the mesh lacks.
    """
    return tuple(placing(today, axes, rules))


def sizes_of(shape: Iterable[int]) -> tuple[int, ...]:
    """Return the sizes of a shape that a transposed one has, too."""
    return tuple(sorted(each for each in shape if each != 1))


def placing(today: Today, axes: Axes, rules: Sequence[ShardingRule] = ()) -> Iterator[PlacedArray]:
    """Yield the same arrays one by one."""
    sizes, before = dict(axes), dict(today.axes)
    matching = list(zip(rules, tests_of(today, axes, rules), strict=True))
    for tensor in today.tensors:
        yield place_one(tensor, before, sizes, [rule for rule, is_meant in matching if is_meant(tensor)])


def tests_of(today: Today, axes: Axes, rules: Sequence[ShardingRule]) -> list[Callable[[Tensor], bool]]:
    """Return the tests of whether each of the rules is about an array.

    Raises:
        CannotPlan: A rule matches no array, or names an axis that the mesh lacks.
    """
    sizes = dict(axes)
    for rule in rules:
        for axis in axes_of_rule(rule):
            if axis not in sizes:
                had = ", ".join(sizes) or "none"
                raise CannotPlan(f"{rule.pattern} cannot be divided by {axis}: the mesh has the axes {had}")
    return [_matcher(today, rule) for rule in rules]


def axes_of_rule(rule: ShardingRule) -> tuple[str, ...]:
    """Return the axes that a rule divides by."""
    return (rule.axis,) if rule.parts is None else tuple(axis for axes in rule.parts for axis in axes)


def of_role(role: str, axis: str) -> ShardingRule:
    """Return the rule that divides all named arrays of a role by an axis."""
    return ShardingRule(_ROLE + role, axis)


def state_bytes(today: Today, axes: Axes, placed: Iterable[PlacedArray]) -> int:
    """Return the bytes of the named arrays on the fullest device, without those in the memory of hosts."""
    return on_fullest(today, axes, (each for each in placed if each.tensor.name is not None))


def on_fullest(today: Today, axes: Axes, placed: Iterable[PlacedArray]) -> int:
    """Return the bytes of these arrays on the device that holds most of them.

    A mesh of fewer devices has the first ones of today. Arrays that are not on the mesh stay where they are.
    """
    on_mesh = 0
    elsewhere: Counter[int] = Counter()
    for each in placed:
        tensor, held = each.tensor, each.bytes_per_device * each.tensor.count
        if tensor.is_on_host:
            continue
        if each.parts is not None:
            on_mesh += held
        else:
            elsewhere.update(dict.fromkeys(tensor.device_ids, held))
    members = frozenset(today.device_ids[: prod(size for _, size in axes)])
    held_by = [held + on_mesh * (device in members) for device, held in elsewhere.items()]
    return max([on_mesh, *held_by])


def place_one(
    tensor: Tensor, before: Mapping[str, int], sizes: Mapping[str, int], rules: Sequence[ShardingRule]
) -> PlacedArray:
    """Return an array on a mesh with these rules, all of which are about it."""
    if tensor.is_on_host or (tensor.parts is None and not rules):
        return PlacedArray(tensor, None, tensor.bytes_per_device)
    notes: list[str] = []
    wanted = tensor.parts or ()
    for rule in rules:
        wanted = _ruled(tensor, wanted, rule, sizes, notes)
    parts = _divisible(tensor, wanted, sizes, notes)
    held = _bytes(tensor, parts, before, sizes, notes)
    divided = None
    if not any(rule.parts is not None for rule in rules):  # such a rule says all axes
        divided = _by_hidden(tensor, parts, before, sizes)
    return PlacedArray(tensor, parts, held, "; ".join(notes), divided)


def if_divided(placed: Iterable[PlacedArray]) -> tuple[PlacedArray, ...]:
    """Return the arrays as they lie if their hidden axes divide them."""
    return tuple(
        each if each.divided is None else PlacedArray(each.tensor, *each.divided, each.note)
        for each in placed
    )


def _by_hidden(
    tensor: Tensor, parts: Parts, before: Mapping[str, int], sizes: Mapping[str, int]
) -> Division | None:
    """Return how an array lies if its hidden axes divide it, too; None if they are not used, or cannot."""
    divided = parts
    for axis in tensor.hidden:
        if sizes.get(axis, 1) == 1:
            continue
        if tensor.groups > 1:
            divided = (*divided, (axis,))
        else:
            divided = divided_by(tensor.shape, divided, axis, sizes) or divided
    return None if divided == parts else Division(divided, _bytes(tensor, divided, before, sizes, []))


def _ruled(
    tensor: Tensor, parts: Parts, rule: ShardingRule, sizes: Mapping[str, int], notes: list[str]
) -> Parts:
    """Return the sharding of an array after a rule."""
    if rule.parts is None:
        if tensor.groups > 1:
            notes.append(f"stands for {tensor.groups} small arrays, which {rule.axis} is not applied to")
            return parts
        found = divided_by(tensor.shape, parts, rule.axis, sizes)
        if found is None and tensor.shape:
            notes.append(f"{rule.axis}={sizes[rule.axis]} divides none of its dimensions")
        return parts if found is None else found
    if len(rule.parts) > len(tensor.shape):
        if tensor.shape:
            notes.append(f"has fewer dimensions than the sharding asked for {rule.pattern}")
        return parts
    return rule.parts


def divided_by(shape: tuple[int, ...], parts: Parts, axis: str, sizes: Mapping[str, int]) -> Parts | None:
    """Return the sharding with its largest dimension divided by one more axis; None if none can be.

    Among equal dimensions, the first that is not divided yet is taken. An array that the axis divides already
    stays as it is.
    """
    if any(axis in axes for axes in parts):
        return parts
    padded = [*parts, *((),) * (len(shape) - len(parts))]

    def pieces(axes: tuple[str, ...]) -> int:
        return prod(sizes.get(name, 1) for name in axes)

    order = sorted(range(len(shape)), key=lambda i: (-shape[i], pieces(padded[i]) > 1, i))
    for i in order:
        if shape[i] and shape[i] % (pieces(padded[i]) * sizes[axis]) == 0:
            padded[i] = (*padded[i], axis)
            return tuple(padded)
    return None


def _divisible(tensor: Tensor, parts: Parts, sizes: Mapping[str, int], notes: list[str]) -> Parts:
    """Return the sharding without axes that the mesh lacks, and without those that JAX would refuse."""
    found: list[tuple[str, ...]] = []
    for i, axes in enumerate(parts):
        here = tuple([axis for axis in axes if axis in sizes])
        pieces = prod([sizes[axis] for axis in here])
        if tensor.groups == 1 and i < len(tensor.shape) and tensor.shape[i] % pieces:
            divisor = " × ".join(f"{axis}={sizes[axis]}" for axis in here)
            notes.append(
                f"dimension {i} of {tensor.shape[i]} is not divisible by {divisor}: it is replicated"
            )
            here = ()
        found.append(here)
    return tuple(found)


def local_shape(shape: tuple[int, ...], parts: Parts, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of the piece of an array that a device holds."""
    found = list(shape)
    for i, axes in enumerate(parts[: len(shape)]):
        for axis in axes:
            found[i] //= sizes.get(axis, 1)
    return tuple(found)


def _bytes(
    tensor: Tensor, parts: Parts, before: Mapping[str, int], sizes: Mapping[str, int], notes: list[str]
) -> int:
    """Return the bytes of an array on a device."""
    if tensor.groups > 1:
        pieces = prod(sizes.get(axis, 1) for axes in parts for axis in axes)
        was = prod(before.get(axis, 1) for axes in tensor.parts or () for axis in axes)
        if pieces != was:
            notes.append(f"stands for {tensor.groups} kinds of small arrays: scaled as if all were divisible")
        return -(-tensor.bytes_per_device * was // pieces)
    elements = prod(local_shape(tensor.shape, parts, sizes))
    if tensor.parts is None:
        was, held = prod(tensor.shape), tensor.bytes_global
    else:
        was, held = prod(local_shape(tensor.shape, tensor.parts, before)), tensor.bytes_per_device
    if elements == was:
        return held
    bits = _bits(tensor.dtype, was, held)
    if bits is None:
        notes.append("the device pads it: scaled from its bytes today")
        return -(-held * elements // max(1, was))
    return -(-elements * bits // 8)


def _bits(dtype: str, elements: int, held: int) -> int | None:
    """Return the bits of an element, from the bytes that this many take; None if the device pads them."""
    named = _BITS.match(dtype)
    if named is None:  # a bool or a key of random numbers
        return held * 8 // elements if elements and held * 8 % elements == 0 else None
    # Some devices keep integers of 4 bits in a byte each.
    return next((bits for bits in (int(named[1]), 8) if -(-elements * bits // 8) == held), None)


def _matcher(today: Today, rule: ShardingRule) -> Callable[[Tensor], bool]:
    """Return the test of whether a rule is about an array."""
    matches = _compiled(rule.pattern)
    if not any(map(matches, today.tensors)):
        raise CannotPlan(_unmatched(today, rule.pattern))
    return matches


def _compiled(pattern: str) -> Callable[[Tensor], bool]:
    if pattern.startswith(_ROLE):
        role = pattern.removeprefix(_ROLE)
        return lambda tensor: tensor.name is not None and tensor.role == role
    wanted = re.escape(dotted(pattern)).replace(r"\*", ".*").replace(r"\?", ".")
    test = re.compile(rf"(?:.*\.)?{wanted}(?:\..*)?", re.IGNORECASE | re.DOTALL)
    return lambda tensor: tensor.name is not None and test.fullmatch(dotted(tensor.name)) is not None


@lru_cache(maxsize=1 << 14)
def dotted(name: str) -> str:
    """Return a name with all its steps written alike: `state['a'][0].b` becomes `state.a.0.b`.

    Brackets and quotes within a key go, too, so that the result is a pattern of the same arrays.
    """
    steps = _MARKS.sub("", name.replace("[", ".")).split(".")
    return ".".join(filter(None, steps)) or name


def _unmatched(today: Today, pattern: str) -> str:
    names = sorted({dotted(tensor.name) for tensor in today.tensors if tensor.name})
    paths = {".".join(name.split(".")[: end + 1]) for name in names for end in range(name.count(".") + 1)}
    steps = {step for name in names for step in name.split(".")}
    near = get_close_matches(dotted(pattern), sorted(paths | steps), 1)
    hint = (
        f"try {near[0]}"
        if near
        else f"there is {', '.join(sorted({name.split('.')[0] for name in names})[:5])}"
    )
    return f"no named array matches {pattern}; {hint}"
