"""Counts live arrays by kind and by name; nothing here keeps an array alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop_agent.arrays import origins
from jaxtop_agent.arrays.paths import Path, likeness

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.arrays.shardings import Shardings

MOST_ORIGINS = 20_000
# Kinds and groups together: a program may create new shapes and lines without end.
MOST_MADE = 200_000
# If a larger share of the bytes has no name, the next census waits for generators, which may hold the arrays.
NAMELESS_AT_MOST = 0.01
# How many objects of JAX are used to find a kind by identity. More do not help: then each array has its own.
MOST_HELD = 4000


class CensusKind(msgspec.Struct, gc=False, eq=False):
    """Arrays that differ only in their values and their names. The bytes are those of one array."""

    shape: tuple[int, ...]
    dtype: str
    sharding: int
    bytes_global: int
    bytes_per_device: int
    # The groups of this kind, by place, or by the hash of the traceback that created the arrays.
    groups: dict[Path | int | None, CensusGroup]
    # The same kind for arrays whose memory another array already holds.
    shared: CensusKind | None = None
    is_on_one: bool = False
    # Some arrays on one device may be pieces of arrays on several devices.
    has_pieces: bool = False


class CensusGroup(msgspec.Struct, gc=False, eq=False):
    """Arrays of a kind with the same name, or created by the same line."""

    kind: Any
    path: Path | None
    made: int = 0  # hash of the traceback
    created: str | None = None
    count: int = 0
    census: int = 0
    # The bytes of all its arrays on one device.
    size: int = 0
    # Its index in the message, once it has one.
    place: int | None = None


class Census:
    """All kinds and groups seen so far, with their current numbers of arrays."""

    def __init__(self, shardings: Shardings) -> None:
        self._shardings = shardings
        self._kinds: dict[tuple[Any, ...], CensusKind] = {}
        # Kinds by the ids of the sharding and of the `aval`, which most arrays share with others.
        self._by_objects: dict[int, dict[int, CensusKind]] = {}
        self._held: list[Any] = []
        self._origins: dict[int, str | None] = {}
        # Kinds by shape and dtype of the piece that one device holds.
        self._by_piece: dict[tuple[tuple[int, ...], str], list[CensusKind]] = {}
        self._made = 0
        self._number = 0
        self._present: list[CensusGroup] = []
        # Hashes of the tracebacks that created arrays on several devices, in this and the previous census.
        self._makers: set[int] = set()
        self._makers_before: set[int] = set()
        self.must_repeat = False
        self.is_short_of_names = False

    @property
    def is_full(self) -> bool:
        """Whether the tables should be rebuilt, because most of their entries no longer exist."""
        return self._made > MOST_MADE

    def begin(self) -> None:
        self._number += 1
        self._present = []
        self._makers_before, self._makers = self._makers, set()
        self.must_repeat = False
        if len(self._origins) > MOST_ORIGINS:
            self._origins.clear()

    def forget_objects(self) -> None:
        """Drop all objects of JAX between two censuses: they hold the devices and their client."""
        self._held.clear()
        self._by_objects.clear()
        self._shardings.forget_objects()

    def count(self, arrays: list[Any], places: dict[int, Path]) -> None:
        """Count these arrays; remove the place of each counted array from `places`."""
        by_objects, census, present = self._by_objects, self._number, self._present
        for array in arrays:
            try:
                alike = by_objects.get(id(array.sharding))
                kind = None if alike is None else alike.get(id(array.aval))
                if kind is None:
                    kind = self._kind(array)
                path = places.get(id(array))
                if path is not None and path.kind is not kind:
                    # This array has the id of a deleted one, so the place is not its own.
                    path.aval_id, path = 0, None
                made = hash(array.traceback)
                group = kind.groups.get(made if path is None else path)
                if group is None or group.made != made:
                    group = self._group(kind, path, array, made)
                if kind.has_pieces:
                    group = self._whole_or_piece(group, made)
            except RuntimeError:  # deleted or donated since it was listed
                continue
            if path is not None:
                path.counted = census
                del places[id(array)]
            if group.census != census:
                group.census = census
                group.count = 1
                present.append(group)
            else:
                group.count += 1

    def _group(self, kind: CensusKind, path: Path | None, array: Any, made: int) -> CensusGroup:
        """Return the group of an array whose group is new, or whose creating line has changed."""
        key = made if path is None else path
        group = kind.groups.get(key)
        if group is None:
            group = kind.groups[key] = CensusGroup(kind, path)
            self._made += 1
        if made not in self._origins:
            self._origins[made] = origins.created(array.traceback)
        group.made, group.created = made, self._origins[made]
        return group

    def _whole_or_piece(self, group: CensusGroup, made: int) -> CensusGroup:
        """Return the group to count an array in: one without bytes if it is a piece of another array.

        `addressable_shards` creates arrays for the pieces, with the traceback of the whole array. Comparing
        the memory is not possible, because `unsafe_buffer_pointer` also creates such an array.
        """
        if not group.kind.is_on_one:
            self._makers.add(made)
        elif made in self._makers_before:
            return self._without_bytes(group)
        return group

    def end(self, left_over: dict[int, Path], release_gil: Callable[[], object]) -> list[CensusGroup]:
        """Return the groups that have arrays now.

        A script that runs during the census replaces some arrays, so places that matched no array are given
        to arrays of their kind without a name. While a step runs, the states before and after it both exist,
        so arrays without a name are counted with the named arrays that the same line created.
        """
        census = self._number
        nameless: dict[CensusKind, list[CensusGroup]] = {}
        for group in self._present:
            if group.path is None:
                nameless.setdefault(group.kind, []).append(group)
        self._give_places(left_over, nameless, release_gil)
        for kind, groups in nameless.items():
            named = [
                group for group in kind.groups.values() if group.path is not None and group.census == census
            ]
            for giver in groups:
                takers = [
                    group for group in named if group.created is not None and group.created == giver.created
                ]
                if takers:
                    # Of fewer arrays than names, such as the constants that a function closes over, nothing
                    # shows which names they have.
                    each, giver.count = divmod(giver.count, len(takers))
                    for taker in takers:
                        taker.count += each
        present = []
        total = unnamed = 0
        for group in self._present:
            release_gil()
            if group.count:
                group.size = group.count * group.kind.bytes_per_device
                present.append(group)
                total += group.size
                if group.path is None:
                    unnamed += group.size
        self.is_short_of_names = unnamed > NAMELESS_AT_MOST * total
        self._present = []
        return present

    def _give_places(
        self,
        left_over: dict[int, Path],
        nameless: dict[CensusKind, list[CensusGroup]],
        release_gil: Callable[[], object],
    ) -> None:
        census = self._number
        for array_id, path in left_over.items():
            release_gil()
            if isinstance(path.kind, tuple):
                path.kind = next(
                    (kind for kind in nameless if (kind.shape, kind.dtype) == path.kind), path.kind
                )
            kind, groups = path.kind, nameless.get(path.kind)
            if not isinstance(kind, CensusKind):
                continue
            made, created = 0, None
            if groups:
                giver = groups[-1]
                made, created = giver.made, giver.created
                giver.count -= 1
                if not giver.count:
                    groups.pop()
            elif (
                array_id < 0  # only registered: its array may be gone
                or path.counted != census - 1
                or (path.departed and path.departed >= path.variable.renewed)
            ):
                continue
            else:
                # The array may be donated to a running step, which holds its memory and has returned no new
                # array yet. It is counted once more only, until the script assigns other arrays there: the
                # script may instead have deleted it.
                path.departed = census
            path.counted = census
            taker = kind.groups.get(path)
            if taker is None:
                taker = kind.groups[path] = CensusGroup(kind, path, made, created)
            elif created is not None:  # the new array may come from another line
                taker.made, taker.created = made, created
            if taker.census != census:
                taker.census, taker.count = census, 0
                self._present.append(taker)
            taker.count += 1

    def drop(self, groups: list[CensusGroup]) -> None:
        """Forget all groups except these."""
        groups_left = set(map(id, groups))
        for kind in self._kinds.values():
            for each in (kind, kind.shared):
                if each is not None:
                    each.groups = {
                        key: group for key, group in each.groups.items() if id(group) in groups_left
                    }

    def kind_of(self, array: Any) -> CensusKind | None:
        """Return the kind of an array; None if it was deleted before its kind was known."""
        try:
            return self._kind(array)
        except RuntimeError:
            return None

    def _kind(self, array: Any) -> CensusKind:
        aval, sharding = array.aval, array.sharding
        alike = self._by_objects.get(id(sharding))
        kind = None if alike is None else alike.get(id(aval))
        if kind is None:
            number = self._shardings.number(sharding)
            key = (aval.shape, aval.dtype, number)
            kind = self._kinds.get(key)
            if kind is None:
                kind = self._kinds[key] = self._new_kind(array, number)
            if len(self._held) < MOST_HELD:
                self._held += (aval, sharding)  # so that their ids are not reused
                self._by_objects.setdefault(id(sharding), {})[id(aval)] = kind
        return kind

    def _new_kind(self, array: Any, number: int) -> CensusKind:
        shape, dtype = likeness(array)
        devices = self._shardings.device_counts[number]
        # The physical size over all devices of the array, including those of other processes.
        on_device = array.on_device_size_in_bytes() // max(1, devices)
        self._made += 1
        kind = CensusKind(shape, dtype, number, array.nbytes, on_device, {}, is_on_one=devices == 1)
        piece = (shape if kind.is_on_one else tuple(array.sharding.shard_shape(shape)), dtype)
        alike = self._by_piece.setdefault(piece, [])
        alike.append(kind)
        if len({each.is_on_one for each in alike}) > 1:
            for each in alike:
                # Arrays counted earlier in this census were not checked for being pieces.
                self.must_repeat = self.must_repeat or not each.has_pieces
                each.has_pieces = True
        return kind

    def _without_bytes(self, group: CensusGroup) -> CensusGroup:
        """Return the counterpart of a group for arrays whose memory another array holds."""
        kind = group.kind
        if kind.shared is None:
            kind.shared = CensusKind(kind.shape, kind.dtype, kind.sharding, 0, 0, {})
        twin: CensusGroup | None = kind.shared.groups.get(group.path)
        if twin is None:
            twin = kind.shared.groups[group.path] = CensusGroup(
                kind.shared, group.path, group.made, group.created
            )
        return twin
