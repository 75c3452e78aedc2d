"""A collective as the compiler writes it, with the meaning of the ids in its groups, and its bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.traces import members
from jaxtop_agent.programs import groups, shapes

if TYPE_CHECKING:
    from jaxtop import wire
    from jaxtop_agent.programs.lines import Instruction

PERMUTE, SCATTER, REDUCE = members.PERMUTE, "reduce-scatter", "all-reduce"
KINDS = (REDUCE, "all-gather", SCATTER, "all-to-all", "ragged-all-to-all", PERMUTE, "collective-broadcast")
_CHANNEL = re.compile(r"\b(channel_id)=\d")
_GLOBAL_IDS = re.compile(r"\b(use_global_device_ids)=true")
_SLICES = re.compile(r"\b(slice_sizes)=")

Arrays = tuple[shapes.Array, ...]


class FoundCollective(NamedTuple):
    """A collective: its computation, its kind, and whether this instruction only starts it."""

    computation: str
    kind: str
    is_start: bool
    instruction: Instruction

    @property
    def mode(self) -> str | None:
        """What the ids in its groups refer to; None if the text contradicts itself."""
        has_channel = self.instruction.attribute(_CHANNEL) is not None
        return members.mode_of(
            self.kind, has_channel=has_channel, has_global_ids=bool(self.instruction.attribute(_GLOBAL_IDS))
        )

    @property
    def written(self) -> str | None:
        """The text of its groups, or of its pairs of source and target."""
        return self.instruction.attribute(groups.PAIRS if self.kind == PERMUTE else groups.PATTERN)

    def sides(self) -> tuple[Arrays, Arrays]:
        """Return the input arrays, as far as the text has them, and the output arrays."""
        shape = shapes.read(self.instruction.shape)
        if shape is None:
            return (), ()
        if self.is_start and (both := shapes.of_start(self.kind, shape)) is not None:
            return shapes.arrays(both[0]), shapes.arrays(both[1])
        return shapes.inside(self.instruction.operands), shapes.arrays(shape)

    def bytes(self, sides: tuple[Arrays, Arrays], group_size: int | None) -> int | None:
        """Return the size S as nccl-tests defines it."""
        operands, result = sides
        if not result or self.instruction.attribute(
            _SLICES
        ):  # the shapes do not give the size of permuted slices
            return None
        if self.kind != SCATTER:
            return shapes.size(result)
        if operands:
            return shapes.size(operands)
        each = shapes.size(result)
        return None if each is None or group_size is None else each * group_size


class GroupTable:
    """The distinct replica groups of a program."""

    def __init__(self, places: members.DeviceAssignment | None) -> None:
        self._places = places
        self._indices: dict[tuple[str, str, bool], int | None] = {}
        self._at: dict[wire.ReplicaGroups, int] = {}
        self.packed: list[wire.ReplicaGroups] = []

    def place(self, found: FoundCollective) -> int | None:
        """Return the index in `packed` of a collective's groups; None if they cannot be read."""
        written, mode = found.written, found.mode
        if written is None or mode is None or self._places is None:
            return None
        key = written, mode, found.kind == PERMUTE
        if key not in self._indices:
            self._indices[key] = self._add(*key, self._places)
        return self._indices[key]

    def size(self, place: int | None) -> int | None:
        """Return the number of members of each group; None if the groups differ in size."""
        sizes = () if place is None else self.packed[place].sizes
        return sizes[0] if len(sizes) == 1 else None

    def _add(self, written: str, mode: str, is_permute: bool, places: members.DeviceAssignment) -> int | None:
        listed = groups.read(written)
        if listed is not None and is_permute:
            listed = members.linked(listed) or None
        flat = None if listed is None else members.flattened(listed, mode, places)
        if not flat:
            return None
        packed = groups.packed(flat)
        at = self._at.setdefault(packed, len(self.packed))
        if at == len(self.packed):
            self.packed.append(packed)
        return at


def places(listed: list[FoundCollective], total: int | None) -> members.DeviceAssignment | None:
    """Infer the device assignment from the ids in the groups and the number of devices.

    This is for programs that are read instruction by instruction: the first line of a module's text states
    the assignment, but that line is not available there.
    """
    most = dict.fromkeys((members.REPLICA, members.BOTH, members.PARTITION, members.FLAT), 0)
    least = 0
    modes = set()
    for written, mode, is_permute in {(each.written, each.mode, each.kind == PERMUTE) for each in listed}:
        ids = groups.read(written) if written else None
        if ids is None or mode is None:
            continue
        modes.add(mode)
        least = max(least, members.span(ids))
        if not is_permute:  # all other kinds list every member
            most[mode] = max(most[mode], members.span(ids))
    replicas = max(most[members.REPLICA], most[members.BOTH], 1)
    if any(most.values()):
        total = most[members.FLAT] or total or replicas * max(most[members.PARTITION], 1)
    elif modes == {members.REPLICA}:
        replicas = total or 1
    if not total or total < least or total % replicas:
        return None
    return members.DeviceAssignment(replicas, total // replicas)
