"""Since when the groups of a census have been there, and the meshes that censuses share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.arrays.groups import place_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from jaxtop import wire
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState


def since_of_changed(host: Host, change: wire.ArraysChange, groups: int) -> tuple[int, ...]:
    """Return since when each group has been there after a change of a host's census to this many groups."""
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


def interned(state: ClusterState, meshes: tuple[wire.Mesh, ...]) -> tuple[wire.Mesh, ...]:
    """Return the meshes as the objects that equal ones of other hosts are."""
    if meshes:
        state.layout_changes += 1
    return tuple(state.meshes.setdefault(mesh, mesh) for mesh in meshes)
