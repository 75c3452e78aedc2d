"""Inventories as messages of bounded size; collectives that move the most bytes take precedence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jaxtop import wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop_agent.programs.hlo import HloReading

MOST_COLLECTIVES = 2000
LIMIT = wire.MAX_TELEMETRY * 3 // 4
# Irregular replica groups of thousands of devices would leave no room for anything else.
LONGEST_GROUPS = LIMIT // 4


def fitted(blank: wire.Inventory, reading: HloReading) -> wire.Inventory:
    """Return the collectives that move the most bytes, as many as fit a message, in program order."""
    sizes = [len(wire.encode(each)) for each in reading.groups]
    by_weight = sorted(
        range(len(reading.collectives)), key=lambda i: weight(reading.collectives[i]), reverse=True
    )
    count = MOST_COLLECTIVES
    while True:
        inventory = _listing(blank, reading, sizes, sorted(by_weight[:count]))
        size = len(wire.encode(inventory))
        if size <= LIMIT or not count:
            return inventory
        count = min(count, len(by_weight)) * LIMIT // size * 9 // 10


def _listing(
    blank: wire.Inventory, reading: HloReading, sizes: list[int], listed: list[int]
) -> wire.Inventory:
    places: dict[int | None, int | None] = {None: None}
    used: list[wire.ReplicaGroups] = []
    collectives = []
    for i in listed:
        each = reading.collectives[i]
        if each.groups is not None and each.groups not in places:
            is_too_long = sizes[each.groups] > LONGEST_GROUPS
            places[each.groups] = None if is_too_long else len(used)
            used += () if is_too_long else (reading.groups[each.groups],)
        collectives.append(replace(each, groups=places[each.groups]))
    rest = len(reading.collectives) - len(listed)
    return replace(blank, groups=tuple(used), collectives=tuple(collectives), rest=rest)


def most_important(inventories: Mapping[Any, wire.Inventory], room: int) -> list[bytes]:
    """Return as many encoded inventories as fit, those that move the most bytes first."""
    encoded: list[bytes] = []
    for each in sorted(inventories.values(), key=lambda each: -sum(map(weight, each.collectives))):
        payload = wire.encode(each)
        room -= len(payload)
        if room < 0:
            break
        encoded.append(payload)
    return encoded


def weight(collective: wire.Collective) -> int:
    """Return the bytes that a launch moves; a loop with an unknown number of rounds counts one."""
    return (collective.bytes or 0) * (1 if collective.times is None else collective.times)
