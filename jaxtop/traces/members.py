"""The members of collectives: from the ids in a program's groups to places in its device assignment."""

from __future__ import annotations

from itertools import chain
from math import prod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Groups = tuple[tuple[int, ...], ...]

# No program has more places or axes; malformed ones may state any number.
MOST_PLACES, MOST_AXES = 1 << 16, 64
PERMUTE = "collective-permute"
# For these kinds the program states whether an id is a replica or a device.
_SAY_WHOSE_IDS = frozenset({"all-reduce", "all-gather", "reduce-scatter"})

# The meanings of the ids in the groups; each decides which other devices take part.
REPLICA, PARTITION, BOTH, FLAT = "replica", "partition", "replica and partition", "flattened"


class DeviceAssignment(NamedTuple):
    """The device assignment: the number of replicas, and of partitions in each; partitions are adjacent."""

    replicas: int
    partitions: int

    @property
    def total(self) -> int:
        return self.replicas * self.partitions


class AxisPart(NamedTuple):
    """A part of an axis of a mesh: its number, how many parts are before it, and its size."""

    axis: int
    before: int
    size: int


def mode_of(kind: str, *, has_channel: bool, has_global_ids: bool) -> str | None:
    """Return the meaning of the ids of a collective; None if the program contradicts itself."""
    if has_global_ids:
        return FLAT if has_channel else None
    if not has_channel:
        return REPLICA
    return BOTH if kind in _SAY_WHOSE_IDS else PARTITION


def transposed(dimensions: Sequence[int], order: Sequence[int] = ()) -> list[int]:
    """Number an array of these dimensions 0, 1, 2, …, and read it with its axes in this order.

    Raises:
        ValueError: These are not the dimensions of an array of a program, or not its axes.
    """
    if min(dimensions, default=1) < 0 or prod(dimensions) > MOST_PLACES or len(dimensions) > MOST_AXES:
        raise ValueError("more places than any program has")
    order = order or range(len(dimensions))
    if sorted(order) != list(range(len(dimensions))):
        raise ValueError("no order of the axes")
    ids = [0]
    for axis in order:
        stride = prod(dimensions[axis + 1 :])
        ids = [each + i * stride for each in ids for i in range(dimensions[axis])]
    return ids


def rows(ids: Sequence[int], size: int) -> Groups:
    return tuple(tuple(ids[i : i + size]) for i in range(0, len(ids), size))


def along(axes: Sequence[int], ids: Sequence[int], parts: Sequence[AxisPart]) -> Groups:
    """Return the groups along parts of the axes of a mesh.

    Raises:
        ValueError: The axes do not fit the devices.
    """
    if len(ids) != prod(axes):
        raise ValueError("a mesh with more or fewer devices")
    dimensions: list[int] = []
    where: dict[tuple[int, int], int] = {}
    for axis, whole in enumerate(axes):
        before = 1
        for _, pre, size in sorted(part for part in parts if part.axis == axis):
            dimensions.append(_divided(pre, before))
            where[axis, pre] = len(dimensions)
            dimensions.append(size)
            before = pre * size
        dimensions.append(_divided(whole, before))
    chosen = tuple(where[part.axis, part.before] for part in parts)
    if len(set(chosen)) < len(chosen):
        raise ValueError("a part of an axis that is named twice")
    others = tuple(i for i in range(len(dimensions)) if i not in chosen)
    order = transposed(dimensions, others + chosen)
    return rows([ids[i] for i in order], prod(dimensions[i] for i in chosen))


def _divided(whole: int, pieces: int) -> int:
    if pieces < 1 or whole % pieces:
        raise ValueError("a part of an axis that does not divide it")
    return whole // pieces


def span(listed: Groups) -> int:
    return max(chain.from_iterable(listed), default=-1) + 1


def linked(pairs: Groups) -> Groups | None:
    """Group the ids that send to each other, directly or through others, in ascending order."""
    if any(len(pair) != 2 for pair in pairs):
        return None
    leader: dict[int, int] = {}

    def lead(one: int) -> int:
        while leader.setdefault(one, one) != one:
            leader[one] = one = leader[leader[one]]
        return one

    for source, target in pairs:
        leader[lead(source)] = lead(target)
    together: dict[int, list[int]] = {}
    for one in sorted(leader):
        together.setdefault(lead(one), []).append(one)
    return tuple(map(tuple, together.values()))


def flattened(listed: Groups, mode: str, places: DeviceAssignment) -> Groups | None:
    """Return the groups as places in the assignment; None if they do not fit it."""
    replicas, partitions = places
    limit = {REPLICA: replicas, PARTITION: partitions, BOTH: replicas, FLAT: places.total}[mode]
    listed = listed or (tuple(range(limit)),)
    ids = list(chain.from_iterable(listed))
    if not ids or min(ids) < 0 or max(ids) >= limit or len(set(ids)) < len(ids):
        return None
    if mode == FLAT:
        return listed
    if mode == PARTITION:
        each = range(replicas)
        return tuple(tuple(r * partitions + p for p in group) for r in each for group in listed)
    if mode == REPLICA:
        each = range(partitions)
        return tuple(tuple(r * partitions + p for r in group) for p in each for group in listed)
    return tuple(tuple(r * partitions + p for r in group for p in range(partitions)) for group in listed)
