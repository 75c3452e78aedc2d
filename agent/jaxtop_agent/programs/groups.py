"""Collectives' members: replica groups in their three notations, as places in the device assignment.

`{{0,2},{1,3}}` lists the groups. `[2,4]<=[4,2]T(1,0)` numbers the devices, reshapes, transposes, and has one
group in each row. `mesh['a'=4,'b'=2] {'b'}` groups along axes of a mesh, or along parts of axes, as in
`'a':(1)2`.
"""

from __future__ import annotations

import re
from itertools import chain
from math import prod
from typing import NamedTuple

from jaxtop import wire

Groups = tuple[tuple[int, ...], ...]

PATTERN = re.compile(
    r"\breplica_groups=(\{\}|\{[\d,{}\s]*\}|\[[\d,]*\]<=\[[\d,]*\](?:T\([\d,]*\))?"
    r"|mesh\[[^\]]*\](?:,\s*device_ids=\((?:(?:<=)?\[[\d,]*\](?:T\([\d,]*\))?|[\d,]*)\))?\s*\{[^}]*\})"
)
PAIRS = re.compile(r"\bsource_target_pairs=(\{[\d,{}\s]*\})")
_LISTED = re.compile(r"\{\s*(?:\{\s*\d[\d,\s]*\}\s*,?\s*)*\}")
_GROUP = re.compile(r"\{([\d,\s]+)\}")
_IOTA = re.compile(r"\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(
    r"mesh\[([^\]]*)\](?:,\s*device_ids=\((?:(?:<=)?\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))\))?\s*\{([^}]*)\}"
)
_AXIS = re.compile(r"\s*('[^']*'|[^',=\s]+)=(\d+)\s*(?:,|$)")
_PART = re.compile(r"\s*('[^']*'|[^',:\s]+)(?::\((\d+)\)(\d+))?\s*(?:,|$)")

# What the ids in the groups refer to, and which other devices take part.
REPLICA, PARTITION, BOTH, FLAT = "replica", "partition", "replica and partition", "flattened"


class Places(NamedTuple):
    """The device assignment: the number of replicas, and of partitions in each; partitions are adjacent."""

    replicas: int
    partitions: int

    @property
    def total(self) -> int:
        return self.replicas * self.partitions


def read(text: str) -> Groups | None:
    """Parse the groups; an empty result is one group of all devices. None if the text cannot be read."""
    try:
        if text.startswith("{"):
            return _listed(text)
        return _iota(text) if text.startswith("[") else _mesh(text)
    except (ValueError, IndexError, KeyError, ZeroDivisionError):
        return None


def _listed(text: str) -> Groups | None:
    if not _LISTED.fullmatch(text):
        return None
    return tuple(tuple(map(int, group[1].split(","))) for group in _GROUP.finditer(text))


def _iota(text: str) -> Groups | None:
    match = _IOTA.fullmatch(text)
    if match is None:
        return None
    count, size = int(match[1]), int(match[2])
    ids = _transposed(_numbers(match[3]), _numbers(match[4]) if match[4] else None)
    return _rows(ids, size) if count * size == len(ids) else None


def _mesh(text: str) -> Groups | None:
    match = _MESH.fullmatch(text)
    if match is None:
        return None
    axes = {axis[1]: int(axis[2]) for axis in _whole(_AXIS, match[1])}
    if match[2]:
        ids = _transposed(_numbers(match[2]), _numbers(match[3]) if match[3] else None)
    elif match[4]:
        ids = list(_numbers(match[4]))
    else:
        ids = _transposed(tuple(axes.values()), None)
    if len(ids) != prod(axes.values()):
        return None
    parts = [(part[1], int(part[2] or 1), int(part[3] or axes[part[1]])) for part in _whole(_PART, match[5])]
    dimensions: list[int] = []
    where: dict[tuple[str, int], int] = {}
    for axis, whole in axes.items():
        before = 1
        for _, pre, size in sorted(part for part in parts if part[0] == axis):
            dimensions.append(_divided(pre, before))
            where[axis, pre] = len(dimensions)
            dimensions.append(size)
            before = pre * size
        dimensions.append(_divided(whole, before))
    along = tuple(where[axis, pre] for axis, pre, _ in parts)
    if len(set(along)) < len(along):
        return None
    others = tuple(i for i in range(len(dimensions)) if i not in along)
    order = _transposed(tuple(dimensions), others + along)
    return _rows([ids[i] for i in order], prod(dimensions[i] for i in along))


def _divided(whole: int, by: int) -> int:
    if whole % by:
        raise ValueError("a part of an axis that does not divide it")
    return whole // by


def _whole(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return consecutive matches that together cover the whole text."""
    found, at = [], 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            raise ValueError("something else between the axes")
        found.append(match)
        at = match.end()
    return found


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _transposed(dimensions: tuple[int, ...], order: tuple[int, ...] | None) -> list[int]:
    """Number an array of these dimensions 0, 1, 2, …, and read it with its axes in this order."""
    if prod(dimensions) > wire.MAX_DEVICES or len(dimensions) > 64:
        raise ValueError("more places than any program has")
    order = tuple(range(len(dimensions))) if order is None else order
    if sorted(order) != list(range(len(dimensions))):
        raise ValueError("no order of the axes")
    ids = [0]
    for axis in order:
        stride = prod(dimensions[axis + 1 :])
        ids = [each + i * stride for each in ids for i in range(dimensions[axis])]
    return ids


def _rows(ids: list[int], size: int) -> Groups:
    return tuple(tuple(ids[i : i + size]) for i in range(0, len(ids), size))


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


def flattened(listed: Groups, mode: str, places: Places) -> Groups | None:
    """Return the groups as places in the assignment; None if they do not fit it."""
    replicas, partitions = places
    limit = {REPLICA: replicas, PARTITION: partitions, BOTH: replicas, FLAT: places.total}[mode]
    listed = listed or (tuple(range(limit)),)
    ids = list(chain.from_iterable(listed))
    if not ids or max(ids) >= limit or len(set(ids)) < len(ids):
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


def packed(listed: Groups) -> wire.ReplicaGroups:
    """Return the groups in the form that messages have."""
    sizes = tuple(map(len, listed))
    members = wire.pack_runs(tuple(chain.from_iterable(listed)))
    return wire.ReplicaGroups(sizes[:1] if len(set(sizes)) == 1 else sizes, members)
