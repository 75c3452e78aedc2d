"""Writes the census as messages: first in full, then only the changes."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import wire
from jaxtop.base.clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.arrays.census import CensusGroup
    from jaxtop_agent.arrays.shardings import Shardings

# The largest groups are listed individually, the rest as sums, so that a message stays below MAX_TELEMETRY.
MOST_LISTED = 1000
MOST_SUMS = 200
MOST_BYTES_AT_FIRST = 120 * 1024
MOST_BYTES = 200 * 1024
# The size of a listed group without its text.
BYTES_EACH = 48


class _Sum(msgspec.Struct, gc=False):
    """The sum of groups too small to be listed, with the same variable, role and sharding."""

    place: int | None = None
    groups: int = 0
    count: int = 0
    bytes_global: int = 0
    bytes_per_device: int = 0


class ArrayTable:
    """The entries that were sent. An entry keeps its index, so that changes can refer to it by number."""

    def __init__(self, shardings: Shardings) -> None:
        self._shardings = shardings
        self._serial = self._last_serial = 0
        self._number = 0
        self._listed: list[CensusGroup] = []
        self._sums: dict[tuple[Any, ...], _Sum] = {}
        self._entries: list[wire.ArrayGroup] = []
        self._counts: list[int] = []
        self._size = 0
        self._sent = (0, 0)  # numbers of meshes and shardings
        self._release_gil: Callable[[], object] = bool

    def take(
        self, present: list[CensusGroup], release_gil: Callable[[], object]
    ) -> wire.Arrays | wire.ArraysChange | None:
        """Return the message that brings viewers up to date; None if nothing has changed."""
        present.sort(key=attrgetter("size"), reverse=True)
        self._release_gil = release_gil
        newly = [group for group in present[:MOST_LISTED] if group.place is None]
        size = self._size + sum(map(_length, newly))
        if not self._serial or (newly and (size > MOST_BYTES or len(self._entries) > 2 * MOST_LISTED)):
            return self._whole(present)
        return self._change(present, newly)

    def restart(self) -> None:
        """Send the full table next time, because the names in the current one have changed."""
        self._serial = 0

    def whole(self) -> wire.Arrays:
        """Return the full state as sent so far, for new viewers."""
        return wire.Arrays(
            at_ms=now_ms(),
            serial=self._serial,
            number=self._number,
            meshes=tuple(self._shardings.meshes[: self._sent[0]]),
            shardings=tuple(self._shardings.described[: self._sent[1]]),
            groups=tuple(self._entries),
            counts=tuple(self._counts),
        )

    def _whole(self, present: list[CensusGroup]) -> wire.Arrays:
        """Begin a new table, with room to grow, and without groups that no longer exist."""
        for group in self._listed:
            group.place = None
        self._serial = self._last_serial = max(self._last_serial + 1, now_ms())
        self._number = 1
        self._listed, self._sums, self._entries, self._counts = [], {}, [], []
        self._size = 0
        for group in present[:MOST_LISTED]:
            self._release_gil()
            if self._size > MOST_BYTES_AT_FIRST:
                break
            self._list(group)
        self._sum_up(present)
        self._sent = len(self._shardings.meshes), len(self._shardings.described)
        return self.whole()

    def _change(self, present: list[CensusGroup], newly: list[CensusGroup]) -> wire.ArraysChange | None:
        before, entries = self._counts, self._entries.copy()
        self._counts = [0] * len(before)
        for group in newly:
            self._list(group)
        self._sum_up(present)
        counts = tuple(
            (place, count)
            for place, count in enumerate(self._counts)
            if place >= len(before) or count != before[place]
        )
        groups = tuple(
            (place, entry)
            for place, entry in enumerate(self._entries)
            if place >= len(entries) or entry is not entries[place]
        )
        meshes, shardings = self._sent
        if not counts and not groups:
            return None
        self._sent = len(self._shardings.meshes), len(self._shardings.described)
        self._number += 1
        return wire.ArraysChange(
            at_ms=now_ms(),
            serial=self._serial,
            number=self._number,
            counts=counts,
            groups=groups,
            meshes=tuple(self._shardings.meshes[meshes:]),
            shardings=tuple(self._shardings.described[shardings:]),
        )

    def _list(self, group: CensusGroup) -> None:
        self._size += _length(group)
        self._listed.append(group)
        group.place = self._add(_entry(group))

    def _add(self, entry: wire.ArrayGroup) -> int:
        self._entries.append(entry)
        self._counts.append(0)
        return len(self._entries) - 1

    def _sum_up(self, present: list[CensusGroup]) -> None:
        """Set the counts of the listed groups, and sum the rest by variable, role and sharding."""
        for each in self._sums.values():
            each.groups = each.count = each.bytes_global = each.bytes_per_device = 0
        for group in present:
            self._release_gil()
            if group.place is not None:
                self._counts[group.place] = group.count
                if self._entries[group.place].created is not group.created:  # another line created it
                    self._entries[group.place] = _entry(group)
            else:
                self._add_to_sum(group)
        for (name, function, role, sharding), each in self._sums.items():
            if not each.groups and each.place is None:
                continue
            entry = wire.ArrayGroup(
                (), "", sharding, each.bytes_global, each.bytes_per_device,
                name, function, role, None, max(2, each.groups),
            )  # fmt: skip
            if each.place is None:
                each.place = self._add(entry)
                self._size += BYTES_EACH
            elif self._entries[each.place] != entry:
                self._entries[each.place] = entry
            self._counts[each.place] = each.count

    def _add_to_sum(self, group: CensusGroup) -> None:
        kind, path = group.kind, group.path
        key: tuple[str | None, str | None, str | None, int]
        if path is None:
            key = (None, None, None, kind.sharding)
        else:
            variable = (path.alias or path).variable
            key = (variable.name, variable.function, path.role, kind.sharding)
        found = self._sums.get(key)
        if found is None and len(self._sums) >= MOST_SUMS:
            key = (None, None, None, kind.sharding)
            found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = _Sum()
        found.groups += 1
        found.count += group.count
        found.bytes_global += group.count * kind.bytes_global
        found.bytes_per_device += group.size


def _entry(group: CensusGroup) -> wire.ArrayGroup:
    kind, path = group.kind, group.path
    name = function = role = None
    if path is not None:
        shown = path.alias or path
        name, function, role = shown.name, shown.function, shown.role or path.role
    return wire.ArrayGroup(
        kind.shape,
        kind.dtype,
        kind.sharding,
        kind.bytes_global,
        kind.bytes_per_device,
        name,
        function,
        role,
        group.created,
    )


def _length(group: CensusGroup) -> int:
    path = group.path
    return (
        BYTES_EACH + len(group.created or "") + (0 if path is None else len(path.name) + len(path.function))
    )
