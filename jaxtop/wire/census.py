"""A census after a change of it: agents send what is new since their last census."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.wire.arrays import Arrays
from jaxtop.wire.bounds import Unreadable
from jaxtop.wire.checks import check_census

if TYPE_CHECKING:
    from jaxtop.wire.arrays import ArraysChange, Mesh


def changed_census(now: Arrays, change: ArraysChange, meshes: tuple[Mesh, ...]) -> Arrays:
    """Return the census after a change, with its new meshes. Lists that did not change stay the same."""
    groups, counts = now.groups, list(now.counts)
    if change.groups:
        by_index = dict(enumerate(groups)) | dict(change.groups)
        if by_index.keys() != set(range(len(by_index))):
            raise Unreadable("a change of array groups that leaves gaps")
        groups = tuple(by_index[i] for i in range(len(by_index)))
        counts += [0] * (len(groups) - len(counts))
    for i, count in change.counts:
        if not 0 <= i < len(counts):
            raise Unreadable("a count of an unknown array group")
        counts[i] = count
    arrays = Arrays(
        at_ms=change.at_ms,
        serial=now.serial,
        number=change.number,
        meshes=(*now.meshes, *meshes) if meshes else now.meshes,
        shardings=(*now.shardings, *change.shardings) if change.shardings else now.shardings,
        groups=groups,
        counts=tuple(counts),
    )
    check_census(arrays, change.meshes, change.shardings, [group for _, group in change.groups])
    return arrays
