"""The groups of a collective: from places in a program's device assignment to devices."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from jaxtop import wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.model.windows import Groups


@lru_cache(maxsize=256)
def expand(groups: wire.ReplicaGroups) -> Groups:
    """Return the places of each group. Groups with a common place, as in a permute, are merged."""
    places = wire.unpack_runs(groups.members)
    if len(groups.sizes) == 1:
        size = groups.sizes[0]
        found: Groups = tuple(places[start : start + size] for start in range(0, len(places), size))
    else:
        rest = iter(places)
        found = tuple(tuple(next(rest) for _ in range(size)) for size in groups.sizes)
    return found if len(set(places)) == len(places) else _joined(found)


def _joined(groups: Groups) -> Groups:
    """Merge groups that share places, directly or through other groups."""
    leader: dict[int, int] = {}

    def lead(place: int) -> int:
        while leader.setdefault(place, place) != place:
            leader[place] = place = leader[leader[place]]
        return place

    for group in groups:
        for place in group:
            leader[lead(place)] = lead(group[0])
    found: dict[int, list[int]] = {}
    for place in leader:
        found.setdefault(lead(place), []).append(place)
    return tuple(tuple(members) for members in found.values())


def assignment(
    devices: int, reported: Sequence[tuple[int, ...]], meshes: Iterable[tuple[int, ...]]
) -> tuple[int, ...] | None:
    """Return the device at each place, from the devices that each process reports; None if uncertain.

    A program's assignment has the order of its mesh. The first of these orders is used in which the devices
    of every process appear in the order that the process reports.
    """
    if len(reported) == 1 and len(reported[0]) == devices:
        return reported[0]
    if not reported:
        return None
    return next((order for order in meshes if len(order) == devices and _agrees(order, reported)), None)


def _agrees(order: tuple[int, ...], reported: Sequence[tuple[int, ...]]) -> bool:
    place = {device: i for i, device in enumerate(order)}
    if len(place) != len(order):
        return False
    for own in reported:
        places = [place.get(device, -1) for device in own]
        if not places or places[0] < 0 or any(a >= b for a, b in pairwise(places)):
            return False
    return True
