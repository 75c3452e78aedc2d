"""A census after a change of it: agents send what is new since their last census."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.model.arrays.groups import place_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from jaxtop.model.host import Host


def changed_census(now: wire.Arrays, change: wire.ArraysChange, meshes: tuple[wire.Mesh, ...]) -> wire.Arrays:
    """Return the census after a change, with its new meshes. Lists that did not change stay the same."""
    groups, counts = now.groups, list(now.counts)
    if change.groups:
        by_index = dict(enumerate(groups)) | dict(change.groups)
        if by_index.keys() != set(range(len(by_index))):
            raise wire.Unreadable("a change of array groups that leaves gaps")
        groups = tuple(by_index[i] for i in range(len(by_index)))
        counts += [0] * (len(groups) - len(counts))
    for i, count in change.counts:
        if not 0 <= i < len(counts):
            raise wire.Unreadable("a count of an unknown array group")
        counts[i] = count
    arrays = wire.Arrays(
        at_ms=change.at_ms,
        serial=now.serial,
        number=change.number,
        meshes=(*now.meshes, *meshes) if meshes else now.meshes,
        shardings=(*now.shardings, *change.shardings) if change.shardings else now.shardings,
        groups=groups,
        counts=tuple(counts),
    )
    wire.check_census(arrays, change.meshes, change.shardings, [group for _, group in change.groups])
    return arrays


def since_of_changed(host: Host, change: wire.ArraysChange, groups: int) -> tuple[int, ...]:
    """Return since when each group has been there after a change of a host's census to so many groups."""
    since = [*host.arrays_since, *(0,) * (groups - len(host.arrays_since))]
    for i, count in change.counts:
        since[i] = (since[i] or change.at_ms) if count else 0
    return tuple(since)


def since_of(host: Host, arrays: wire.Arrays) -> tuple[int, ...]:
    """Return since when each group of a new full census has been there; the places of groups may differ."""
    before = dict(zip(_identities(host.arrays), host.arrays_since, strict=False))
    return tuple(
        (before.get(identity) or arrays.at_ms) if count else 0
        for identity, count in zip(_identities(arrays), arrays.counts, strict=True)
    )


def _identities(census: wire.Arrays) -> list[Hashable]:
    """Return what identifies each group of a census among those of its process."""
    places = [place_of(sharding, census) for sharding in census.shardings]
    return [
        (
            each.name,
            each.function,
            each.created,
            each.shape,
            each.dtype,
            each.groups > 1,
            places[each.sharding],
        )
        for each in census.groups
    ]
