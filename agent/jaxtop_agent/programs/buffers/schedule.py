"""The scheduled instructions of a module, from the compiler's own message of it.

Computations inside fusions are left out: they have no buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import protobuf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The numbers of fields in XLA's `HloModuleProto` and the messages inside it.
_COMPUTATIONS, _ENTRY_ID, _SCHEDULE = 3, 6, 7
_INSTRUCTIONS, _ID, _ROOT = 2, 5, 6
_NAME, _OPCODE, _SHAPE, _METADATA, _PARAMETER, _ELEMENT = 1, 2, 3, 7, 9, 13
_OWN_ID, _OPERANDS, _CALLED = 35, 36, 38
_OP_NAME, _FILE, _LINE, _FRAME = 2, 3, 4, 15
MOST_INSTRUCTIONS = 20_000

Index = tuple[int, ...]
# A part of the result of an instruction.
Spot = tuple[int, Index]


class TooMany(Exception):
    """The module has more instructions than are read."""


class Shape(NamedTuple):
    """The shape of a result: an array, or a tuple of shapes."""

    words: str
    parts: tuple[Shape, ...] | None = None

    def leaves(self, at: Index = ()) -> Iterator[Index]:
        """Yield the places of the arrays inside."""
        if self.parts is None:
            yield at
        else:
            for number, part in enumerate(self.parts):
                yield from part.leaves((*at, number))


@dataclass(slots=True)
class ScheduledInstruction:
    """An instruction with what it takes and calls, and where the script has it."""

    id: int
    name: str
    opcode: str
    shape: Shape
    operands: list[int]
    called: list[int]
    number: int  # of a parameter, or of the element that it takes of a tuple
    name_stack: str
    place: tuple[str, int] | None
    frame: int | None


@dataclass
class Computation:
    """A computation: its instructions in the order in which they run, and the one whose result it returns."""

    root: int
    order: list[int] = field(default_factory=list)


@dataclass
class ModuleSchedule:
    """All scheduled computations of a module."""

    entry: int
    computations: dict[int, Computation]
    instructions: dict[int, ScheduledInstruction]


def read(raw: bytes, pause: Callable[[], None] = lambda: None) -> ModuleSchedule | None:
    """Return the schedule of a serialised module; None if the compiler has not scheduled it."""
    module = protobuf.read(raw)
    entry, schedule = module.number(_ENTRY_ID), module.message(_SCHEDULE)
    if schedule is None or entry is None:
        return None
    orders = {each.number(1) or 0: each.message(2) for each in schedule.messages(1)}
    found = ModuleSchedule(entry, {}, {})
    for computation in module.messages(_COMPUTATIONS):
        own = computation.number(_ID) or 0
        order = orders.get(own)
        if order is None:
            continue
        found.computations[own] = Computation(computation.number(_ROOT) or 0, order.numbers(1))
        for each in computation.messages(_INSTRUCTIONS):
            instruction = _instruction(each)
            found.instructions[instruction.id] = instruction
            if len(found.instructions) > MOST_INSTRUCTIONS:
                raise TooMany
            pause()
    return found if entry in found.computations else None


def _instruction(raw: protobuf.ProtobufMessage) -> ScheduledInstruction:
    opcode, metadata, shape = raw.text(_OPCODE) or "", raw.message(_METADATA), raw.message(_SHAPE)
    file = metadata and metadata.text(_FILE)
    return ScheduledInstruction(
        raw.number(_OWN_ID) or 0,
        raw.text(_NAME) or "",
        opcode,
        Shape("?") if shape is None else _shape(shape),
        raw.numbers(_OPERANDS),
        raw.numbers(_CALLED),
        raw.number(_PARAMETER if opcode == "parameter" else _ELEMENT) or 0,
        (metadata and metadata.text(_OP_NAME)) or "",
        (file, metadata.number(_LINE) or 0) if metadata and file else None,
        metadata and metadata.number(_FRAME),
    )


# XLA's `PrimitiveType`.
_TYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16",
    11: "f32", 12: "f64", 15: "c64", 16: "bf16", 18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4",
    22: "u4", 23: "f8e4m3b11fnuz",
}  # fmt: skip
_TUPLE = 13


def _shape(raw: protobuf.ProtobufMessage) -> Shape:
    kind = raw.number(2)
    if kind == _TUPLE:
        return Shape("tuple", tuple(map(_shape, raw.messages(4))))
    return Shape(f"{_TYPES.get(kind or 0, '?')}[{','.join(map(str, raw.numbers(3)))}]")
