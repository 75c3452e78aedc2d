"""The programs that a profile has: the profiler may keep each as a protocol buffer.

XLA's `xla/service/hlo.proto` and `xla/xla_data.proto` have the numbers of the fields.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.protobuf import Malformed, ProtobufMessage, read
from jaxtop.traces.members import (
    PERMUTE,
    AxisPart,
    DeviceAssignment,
    Groups,
    along,
    flattened,
    linked,
    mode_of,
    rows,
    transposed,
)
from jaxtop.traces.parts import ONE_WAY, WantedCollectives

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtop.traces.xspace import Trace

# To read a larger program takes many seconds.
MOST_BYTES = 32_000_000
# The number of asynchronous parts of one operation.
MOST_STEPS = 64
METADATA, PROTO = "/host:metadata", "Hlo Proto"
_MODULE = 1
_MODULE_NAME, _COMPUTATION, _ASSIGNMENT = 1, 3, 15
_COMPUTATION_INSTRUCTION, _COMPUTATION_ID, _ROOT = 2, 5, 6
_NAME, _OPCODE, _CHANNEL, _TARGET, _ID, _OPERAND, _CALLED = 1, 2, 26, 28, 35, 36, 38
_CONFIG, _LISTED, _PAIR, _GLOBAL_IDS, _LIST, _IOTA, _MESH = 43, 49, 52, 71, 87, 92, 93
_REPLICAS, _PARTITIONS, _OF_PARTITION, _DEVICE = 1, 2, 3, 1
_MEMBER, _SOURCE, _SINK = 1, 1, 2
# Of the list: groups one by one, or, in older versions, an iota.
_GROUP, _OLD_IOTA = 1, 2
_COUNT, _SIZE, _DIMENSION, _ORDER = 1, 2, 3, 4
_OF_MESH, _ALONG = 1, 2
_AXIS, _IDS, _TRANSFORM, _AXIS_SIZE = 1, 2, 3, 2
_AXIS_NUMBER, _SUB_AXIS, _BEFORE, _SUB_SIZE = 1, 2, 1, 2
_KINDS = re.compile(
    r"(all-reduce|all-gather|all-to-all|ragged-all-to-all|reduce-scatter|collective-permute|collective-broadcast)"
    r"(-start|-done)?"
)
_ENDS = re.compile(r".+-(done|update)")
_WRAPPER = re.compile(r"(async|call|fusion)-start")
# The profiler shows the operation that this one starts, by its own name.
_ASYNC = "async-start"
# The calls in the first and the last fusion of a TPU's collective that runs during other work. All its
# fusions repeat the collective, with this in its configuration.
_STARTS, _FINISHES = "AsyncCollectiveStart", "AsyncCollectiveDone"
_CHAINED = b"async_collective_fusion_config"
# The entry in the configuration of a TPU's collective that makes the cores wait for each other before it.
_BARRIER = b'"barrier_config"'


class TracedCollective(NamedTuple):
    """A collective of a program: its kind, and its groups of device ids, None where they are unknown."""

    kind: str
    groups: Groups | None
    has_barrier: bool = False


@dataclass
class ProfilePrograms:
    """The programs of a profile by name, as a trace has only that.

    Where several have one name and differ in something, that is unknown. `names` has the collectives by the
    operations that start and end them; `devices` those that a program runs on.
    """

    names: dict[str, dict[str, str]] = field(default_factory=dict)
    collectives: dict[tuple[str, str], TracedCollective] = field(default_factory=dict)
    devices: dict[str, frozenset[int] | None] = field(default_factory=dict)

    @property
    def wanted(self) -> WantedCollectives:
        """Which operations are collectives: by the programs, and of others by their names."""
        listed = self.collectives.items()
        one_way = frozenset(key for key, each in listed if each.kind in ONE_WAY)
        barriers = frozenset(key for key, each in listed if each.has_barrier)
        return WantedCollectives(self.names, frozenset(self.names), one_way, barriers)


def programs(trace: Trace) -> ProfilePrograms:
    """Return the programs that a trace has, as far as they can be read."""
    found = ProfilePrograms()
    for proto in messages(trace):
        with suppress(Malformed):  # the names of its operations still say much
            module = read(proto).message(_MODULE)
            if module is not None:
                _add(found, module)
    return found


def started(message: bytes) -> dict[str, str]:
    """Return the names of the operations that asynchronous starts wrap, by those of the starts."""
    module = read(message)
    roots = {
        computation.number(_COMPUTATION_ID): computation.number(_ROOT)
        for computation in module.messages(_COMPUTATION)
    }
    instructions = [
        each
        for computation in module.messages(_COMPUTATION)
        for each in computation.messages(_COMPUTATION_INSTRUCTION)
    ]
    names = {each.number(_ID): each.text(_NAME) or "" for each in instructions}
    return {
        each.text(_NAME) or "": names[root]
        for each in instructions
        if each.text(_OPCODE) == _ASYNC
        for called in each.numbers(_CALLED)[:1]
        if (root := roots.get(called)) in names
    }


def _add(found: ProfilePrograms, module: ProtobufMessage) -> None:
    name = module.text(_MODULE_NAME) or ""
    assigned = _assigned(module)
    names, collectives = _Module(module, assigned).collectives()
    found.names.setdefault(name, {}).update(names)
    for op, each in collectives.items():
        before = found.collectives.get((name, op), each)
        groups = each.groups if each.groups == before.groups else None
        has_barrier = each.has_barrier or before.has_barrier
        found.collectives[name, op] = TracedCollective(each.kind, groups, has_barrier)
    devices = None if assigned is None else frozenset(assigned.devices)
    found.devices[name] = devices if found.devices.get(name, devices) == devices else None


def messages(trace: Trace) -> Iterator[bytes]:
    for plane in trace.planes:
        if plane.name == METADATA:
            for stats in plane.described():
                proto = stats.get(PROTO)
                if isinstance(proto, bytes) and len(proto) <= MOST_BYTES:
                    yield proto


class _AssignedDevices(NamedTuple):
    """The device assignment: how many places it has, and the device at each."""

    places: DeviceAssignment
    devices: tuple[int, ...]


def _assigned(module: ProtobufMessage) -> _AssignedDevices | None:
    assignment = module.message(_ASSIGNMENT)
    if assignment is None:
        return None
    places = DeviceAssignment(assignment.number(_REPLICAS) or 0, assignment.number(_PARTITIONS) or 0)
    of_partitions = [each.numbers(_DEVICE) for each in assignment.messages(_OF_PARTITION)]
    if len(of_partitions) != places.partitions or any(len(each) != places.replicas for each in of_partitions):
        return None
    devices = tuple(chain.from_iterable(zip(*of_partitions, strict=True)))
    return _AssignedDevices(places, devices) if devices and len(set(devices)) == len(devices) else None


class _Module:
    """The instructions of a program."""

    def __init__(self, module: ProtobufMessage, assigned: _AssignedDevices | None) -> None:
        self._assigned = assigned
        computations = {
            computation.number(_COMPUTATION_ID): computation.messages(_COMPUTATION_INSTRUCTION)
            for computation in module.messages(_COMPUTATION)
        }
        self._instructions = [each for instructions in computations.values() for each in instructions]
        self._by_number = {each.number(_ID): each for each in self._instructions}
        # The collectives inside computations that others call, and the calls that start or end them there.
        self._inside = {
            number: found for number, instructions in computations.items() if (found := _first(instructions))
        }
        self._parts = {
            number: {each.text(_TARGET) for each in computations[number]} & {_STARTS, _FINISHES}
            for number in self._inside
        }

    def collectives(self) -> tuple[dict[str, str], dict[str, TracedCollective]]:
        """Return the collectives by the operations that start and end them, and what each is."""
        names: dict[str, str] = {}
        found: dict[str, TracedCollective] = {}
        chains = self._chains()
        for each in self._instructions:
            start = self._start(each)
            collective = self._collective(start)
            if collective is None:
                continue
            name = (collective if start.text(_OPCODE) == _ASYNC else start).text(_NAME) or ""
            if start.text(_OPCODE) == "fusion":
                parts = self._parts_of(start)
                if _FINISHES in parts:
                    name = chains.get(_chain(collective), name)
                elif parts or _CHAINED in collective.raw(_CONFIG):
                    continue  # the last of its chain is what waits
            names[each.text(_NAME) or ""] = name
            kind = _kind(collective)
            has_barrier = _BARRIER in collective.raw(_CONFIG)
            found[name] = TracedCollective(kind, self._groups(collective, kind), has_barrier)
        return names, found

    def _start(self, instruction: ProtobufMessage) -> ProtobufMessage:
        """Return what an operation ends or goes on with: it is among its operands, by number."""
        for _ in range(MOST_STEPS):
            is_end = _ENDS.fullmatch(instruction.text(_OPCODE) or "")
            operands = instruction.numbers(_OPERAND) if is_end else []
            if not operands or operands[0] not in self._by_number:
                break
            instruction = self._by_number[operands[0]]
        return instruction

    def _collective(self, start: ProtobufMessage) -> ProtobufMessage | None:
        """Return the collective that an operation is, or has in a computation that it calls."""
        opcode = start.text(_OPCODE) or ""
        if _KINDS.fullmatch(opcode):
            return start
        if _WRAPPER.fullmatch(opcode) or opcode == "fusion":
            called = (self._inside.get(number) for number in start.numbers(_CALLED))
            return next((each for each in called if each is not None), None)
        return None

    def _chains(self) -> dict[object, str]:
        """Return the first fusion of each chain."""
        found: dict[object, str] = {}
        for each in self._instructions:
            if each.text(_OPCODE) == "fusion" and _STARTS in self._parts_of(each):
                collective = self._collective(each)
                if collective is not None:
                    found.setdefault(_chain(collective), each.text(_NAME) or "")
        return found

    def _parts_of(self, fusion: ProtobufMessage) -> set[str | None]:
        return set().union(*(self._parts.get(number, set()) for number in fusion.numbers(_CALLED)))

    def _groups(self, collective: ProtobufMessage, kind: str) -> Groups | None:
        """Return the groups of a collective as device ids."""
        if self._assigned is None:
            return None
        mode = mode_of(
            kind,
            has_channel=bool(collective.number(_CHANNEL)),
            has_global_ids=bool(collective.number(_GLOBAL_IDS)),
        )
        places, devices = self._assigned
        with suppress(ValueError, IndexError, KeyError):
            listed = _pairs(collective) if kind == PERMUTE else _listed(collective)
            if listed is not None and mode is not None:
                flat = flattened(listed, mode, places)
                return None if flat is None else tuple(tuple(devices[one] for one in each) for each in flat)
        return None


def _first(instructions: Iterable[ProtobufMessage]) -> ProtobufMessage | None:
    return next((each for each in instructions if _KINDS.fullmatch(each.text(_OPCODE) or "")), None)


def _kind(collective: ProtobufMessage) -> str:
    match = _KINDS.fullmatch(collective.text(_OPCODE) or "")
    return "" if match is None else match[1]


def _chain(collective: ProtobufMessage) -> tuple[object, ...]:
    return collective.text(_OPCODE), collective.number(_CHANNEL)


def _pairs(collective: ProtobufMessage) -> Groups | None:
    pairs = ((each.number(_SOURCE) or 0, each.number(_SINK) or 0) for each in collective.messages(_PAIR))
    return linked(tuple(pairs)) or None


def _listed(collective: ProtobufMessage) -> Groups | None:
    """Return the groups in one of their forms; they raise `ValueError` if they are malformed."""
    mesh = collective.message(_MESH)
    if mesh is not None:
        return _along(mesh)
    listed = collective.message(_LIST) or ProtobufMessage(())
    iota = collective.message(_IOTA) or listed.message(_OLD_IOTA)
    if iota is not None:
        ids = transposed(iota.numbers(_DIMENSION), iota.numbers(_ORDER))
        count, size = iota.number(_COUNT) or 0, iota.number(_SIZE) or 0
        return rows(ids, size) if count * size == len(ids) else None
    groups = listed.messages(_GROUP) or collective.messages(_LISTED)
    return tuple(tuple(each.numbers(_MEMBER)) for each in groups)


def _along(listed: ProtobufMessage) -> Groups:
    mesh = listed.message(_OF_MESH) or ProtobufMessage(())
    axes = [axis.number(_AXIS_SIZE) or 0 for axis in mesh.messages(_AXIS)]
    transform = mesh.message(_TRANSFORM)
    if transform is not None:
        ids = transposed(transform.numbers(1), transform.numbers(2))
    else:
        ids = mesh.numbers(_IDS) or transposed(axes)
    parts = []
    for each in listed.messages(_ALONG):
        axis, sub = each.number(_AXIS_NUMBER) or 0, each.message(_SUB_AXIS)
        parts.append(
            AxisPart(axis, 1, axes[axis])
            if sub is None
            else AxisPart(axis, sub.number(_BEFORE) or 0, sub.number(_SUB_SIZE) or 0)
        )
    return along(axes, ids, parts)
