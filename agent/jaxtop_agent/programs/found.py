"""A collective as it stands in the text, and what follows from it: whose ids its groups have, its bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.programs import groups, shapes

if TYPE_CHECKING:
    from jaxtop import wire
    from jaxtop_agent.programs.lines import Instruction

PERMUTE, SCATTER, REDUCE = "collective-permute", "reduce-scatter", "all-reduce"
KINDS = (REDUCE, "all-gather", SCATTER, "all-to-all", "ragged-all-to-all", PERMUTE, "collective-broadcast")
# Of these the compiler says itself whether their ids are those of replicas or of all devices.
_SAY_WHOSE_IDS = frozenset({REDUCE, "all-gather", SCATTER})
_CHANNEL = re.compile(r"\b(channel_id)=\d")
_GLOBAL_IDS = re.compile(r"\b(use_global_device_ids)=true")
_SLICES = re.compile(r"\b(slice_sizes)=")

Arrays = tuple[shapes.Array, ...]


class Found(NamedTuple):
    """A collective: in which computation, of what kind, and whether it only starts there."""

    computation: str
    kind: str
    is_start: bool
    by: Instruction

    @property
    def mode(self) -> str | None:
        """What the ids in its groups are; None where the text contradicts itself."""
        has_channel = self.by.attribute(_CHANNEL) is not None
        if self.by.attribute(_GLOBAL_IDS):
            return groups.FLAT if has_channel else None
        if not has_channel:
            return groups.REPLICA
        return groups.BOTH if self.kind in _SAY_WHOSE_IDS else groups.PARTITION

    @property
    def written(self) -> str | None:
        """Its groups, or its pairs of source and target, as they are written."""
        return self.by.attribute(groups.PAIRS if self.kind == PERMUTE else groups.PATTERN)

    def sides(self) -> tuple[Arrays, Arrays]:
        """The arrays that go in, where the text says so, and those that come out."""
        shape = shapes.read(self.by.shape)
        if shape is None:
            return (), ()
        if self.is_start and self.kind != REDUCE and not isinstance(shape, shapes.Array) and len(shape) > 1:
            return shapes.arrays(shape[0]), shapes.arrays(shape[1])
        return shapes.inside(self.by.operands), shapes.arrays(shape)

    def bytes(self, sides: tuple[Arrays, Arrays], group_size: int | None) -> int | None:
        """S, by the definitions of nccl-tests."""
        operands, result = sides
        if not result or self.by.attribute(_SLICES):  # of a permutation of parts no shape tells their size
            return None
        if self.kind != SCATTER:
            return shapes.size(result)
        if operands:
            return shapes.size(operands)
        each = shapes.size(result)
        return None if each is None or group_size is None else each * group_size


class Table:
    """The replica groups of a program, each kind of them once."""

    def __init__(self, places: groups.Places | None) -> None:
        self._places = places
        self._known: dict[tuple[str, str, bool], int | None] = {}
        self._at: dict[wire.ReplicaGroups, int] = {}
        self.packed: list[wire.ReplicaGroups] = []

    def place(self, found: Found) -> int | None:
        """Where the groups of a collective are in `packed`; None if they cannot be read."""
        written, mode = found.written, found.mode
        if written is None or mode is None or self._places is None:
            return None
        key = written, mode, found.kind == PERMUTE
        if key not in self._known:
            self._known[key] = self._add(*key, self._places)
        return self._known[key]

    def size(self, place: int | None) -> int | None:
        """How many members each group has, where they all have as many."""
        sizes = () if place is None else self.packed[place].sizes
        return sizes[0] if len(sizes) == 1 else None

    def _add(self, written: str, mode: str, is_permute: bool, places: groups.Places) -> int | None:
        listed = groups.read(written)
        if listed is not None and is_permute:
            listed = groups.linked(listed) or None
        flat = None if listed is None else groups.flattened(listed, mode, places)
        if not flat:
            return None
        packed = groups.packed(flat)
        at = self._at.setdefault(packed, len(self.packed))
        if at == len(self.packed):
            self.packed.append(packed)
        return at


def places(listed: list[Found], total: int | None) -> groups.Places | None:
    """The device assignment, by the ids in the groups and by how many devices there are.

    For where the text of the module as a whole is not at hand, which has it in its first line.
    """
    most = dict.fromkeys((groups.REPLICA, groups.BOTH, groups.PARTITION, groups.FLAT), 0)
    least = 0
    modes = set()
    for written, mode, is_permute in {(each.written, each.mode, each.kind == PERMUTE) for each in listed}:
        ids = groups.read(written) if written else None
        if ids is None or mode is None:
            continue
        modes.add(mode)
        least = max(least, groups.span(ids))
        if not is_permute:  # everybody takes part in the others
            most[mode] = max(most[mode], groups.span(ids))
    replicas = max(most[groups.REPLICA], most[groups.BOTH], 1)
    if any(most.values()):
        total = most[groups.FLAT] or total or replicas * max(most[groups.PARTITION], 1)
    elif modes == {groups.REPLICA}:
        replicas = total or 1
    if not total or total < least or total % replicas:
        return None
    return groups.Places(replicas, total // replicas)
