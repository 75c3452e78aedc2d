"""When the buffers of a program are alive: from the instruction that defines one to the last that reads it.

The compiler's assignment lists where each buffer is defined and where it lies, but on CPU not until when it
is needed. The schedule shows it: instructions run in its order, and a loop's body is taken once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from jaxtop_agent.programs.buffers.schedule import Index, ModuleSchedule, ScheduledInstruction, Spot

# The result of these instructions is their first operand, or parts of their operands.
_PASSES_ON = frozenset(
    {
        "bitcast",
        "opt-barrier",
        "optimization-barrier",
        "get-tuple-element",
        "tuple",
        "while",
        "call",
        "conditional",
    }
)
_CALLS = frozenset({"while", "call", "conditional"})
# The depth of calls inside each other that is followed.
MAX_CALL_DEPTH = 200


class Liveness:
    """The first and the last moment of each buffer; a moment is a position in the whole schedule."""

    def __init__(
        self, schedule: ModuleSchedule, defined: Collection[Spot], pause: Callable[[], None] = lambda: None
    ) -> None:
        self._schedule, self._defined, self._pause = schedule, defined, pause
        self._callers: dict[int, ScheduledInstruction] = {}
        self._resolved: dict[Spot, frozenset[Spot]] = {}
        self.begins: dict[int, int] = {}  # by instruction
        self.ends: dict[Spot, int] = {}
        self.order: list[int] = []  # the instructions by their moments
        for each in schedule.instructions.values():
            if each.opcode in _CALLS:
                for called in each.called:
                    self._callers.setdefault(called, each)
        self._walk(schedule.entry, 0)

    def spans(self) -> dict[Spot, tuple[int, int]]:
        """Return the first and the last moment of each buffer that is in the schedule."""
        return {
            spot: (begin, max(begin, self.ends.get(spot, begin)))
            for spot in self._defined
            if (begin := self.begins.get(spot[0])) is not None
        }

    def _walk(self, computation: int, depth: int) -> None:
        found = self._schedule.computations.get(computation)
        if found is None or depth > MAX_CALL_DEPTH:
            return
        for number in found.order:
            instruction = self._schedule.instructions[number]
            self._pause()
            self.begins.setdefault(number, len(self.order))
            self.order.append(number)
            if instruction.opcode in _CALLS:
                for called in instruction.called:
                    self._walk(called, depth + 1)
            if instruction.opcode not in _PASSES_ON:
                for operand in instruction.operands:
                    self._read(operand)
        self._read(found.root)  # returned to the caller, or carried into the next round of a loop

    def _read(self, number: int) -> None:
        """Note that all parts of a result are read at this moment."""
        now = len(self.order) - 1
        instruction = self._schedule.instructions.get(number)
        for leaf in () if instruction is None else _all_leaves(instruction):
            for spot in self._resolve((number, leaf), 0):
                self.ends[spot] = max(now, self.ends.get(spot, 0))

    def _resolve(self, spot: Spot, depth: int) -> frozenset[Spot]:
        """Return the buffers that a part of a result may be: those defined there, or passed on to there."""
        known = self._resolved.get(spot)
        if known is not None:
            return known
        if spot in self._defined or depth > MAX_CALL_DEPTH:
            found = frozenset({spot} if spot in self._defined else ())
        else:
            self._resolved[spot] = frozenset()  # a loop may pass a value on to itself
            found = frozenset().union(
                *(self._resolve(each, depth + 1) for each in self._forwarded_parts(spot))
            )
        self._resolved[spot] = found
        return found

    def _forwarded_parts(self, spot: Spot) -> Iterator[Spot]:
        """Yield the parts of other results that an instruction passes on."""
        number, index = spot
        instruction = self._schedule.instructions.get(number)
        if instruction is None:
            return
        if instruction.opcode == "tuple" and index:
            yield instruction.operands[index[0]], index[1:]
        elif instruction.opcode == "get-tuple-element":
            yield instruction.operands[0], (instruction.number, *index)
        elif instruction.opcode == "parameter":
            yield from self._passed_by_caller(instruction, index)
        elif instruction.opcode in _CALLS:
            if instruction.opcode == "while":
                yield instruction.operands[0], index
            for called in instruction.called:
                if (computation := self._schedule.computations.get(called)) is not None:
                    yield computation.root, index
        elif instruction.opcode in _PASSES_ON and instruction.operands:
            yield instruction.operands[0], index

    def _passed_by_caller(self, parameter: ScheduledInstruction, index: Index) -> Iterator[Spot]:
        """Yield what the caller passes as a parameter."""
        computation = parameter.id >> 32
        caller = self._callers.get(computation)
        if caller is None:
            return
        place = caller.called.index(computation) + 1 if caller.opcode == "conditional" else parameter.number
        if place < len(caller.operands):
            yield caller.operands[place], index


def _all_leaves(instruction: ScheduledInstruction) -> Iterable[Index]:
    """Return the places of all buffers of a result: its arrays, and the tables of its tuples."""
    leaves = list(instruction.shape.leaves())
    return dict.fromkeys(leaf[:length] for leaf in leaves for length in range(len(leaf) + 1))
