"""Operations and bytes of one launch of a program: each computation counts as often as it runs.

XLA's own sum counts the body of a loop once. Here a loop body counts once per round. A sum that is not fully
known is a lower bound: a loop with an unknown number of rounds counts one, a conditional counts its cheapest
branch unless all cost the same, and a library call of unknown cost counts no operations.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.programs.calls import CALLS_ONE, MAX_CALL_DEPTH, MOST_TIMES, applied_by, made_by, runs
from jaxtop_agent.programs.counting import APPLIES, FUSIONS, CountedCost, Extent, cost, results
from jaxtop_agent.programs.executed_operations import (
    ExecutedOperation,
    InstructionCost,
    Notes,
    kind_of,
    kind_of_fusion,
)
from jaxtop_agent.programs.loops import Loops
from jaxtop_agent.programs.summaries import CalledComputations, ComputationSummary, Reads, note, size, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtop_agent.programs.lines import Instruction
    from jaxtop_agent.programs.source_lines import Frames

# A program with more instructions takes too long to read, so it has no figure.
MOST_INSTRUCTIONS = 200_000
_CALLS = CALLS_ONE | {"while", "conditional"}
# Instructions that do nothing when the program runs.
_IDLE = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})


class Work(NamedTuple):
    """Operations and bytes of a launch on one device; a lower bound if `at_least`.

    `executed` is the number of instructions that run one by one; None if a loop's rounds are unknown.
    """

    operations: int = 0
    bytes: int = 0
    at_least: bool = False
    executed: int | None = 0


_UNKNOWN = Work(at_least=True, executed=None)


class OperationSums:
    """The sum over the computations of a module, which may be added in any order."""

    def __init__(self) -> None:
        self._summaries: dict[str, ComputationSummary] = {}
        self.instructions = 0  # the number of those added so far
        self._notes = Notes()
        self._works: dict[str, Work] = {}
        self._loops = Loops()
        # Calls by loops of unstated rounds: the summary, and the place of the call in it.
        self._unstated: list[tuple[ComputationSummary, int, Instruction]] = []

    def add(self, computation: str, listed: list[Instruction]) -> Iterator[None]:
        """Add a computation with all of its instructions; yield often."""
        self.instructions += len(listed)
        if self.is_too_large:
            self._summaries.clear()
            self._unstated.clear()
            self._notes, self._loops = Notes(), Loops()
            return
        self._loops.add(computation, listed)
        shapes = {each.name: each.shape for each in listed}
        summary = self._summaries[computation] = ComputationSummary(computation)
        parameters = {
            each.name: int(each.operands)
            for each in listed
            if each.opcode == "parameter" and each.operands.isdigit()
        }
        used: set[str] = set()
        for number, each in enumerate(listed):
            used.update(self._take(summary, each, shapes, parameters))
            if self._notes.are_too_many:
                yield from self._notes.drop_lightest()
            if not number % 32:
                yield
        self._find_parts(summary, listed, shapes)
        summary.placed = next((each for each in reversed(listed) if each.states_line), None)
        summary.taken = sum(size(shapes[each]) for each in parameters)
        unused = [each for each in listed if each.name not in used]
        results = [each for each in unused if each.opcode == "tuple"] or unused
        summary.returned = size(results[0].shape) if len(results) == 1 else None

    @property
    def is_too_large(self) -> bool:
        """Whether the program has too many instructions to be read."""
        return self.instructions > MOST_INSTRUCTIONS

    def _take(
        self,
        summary: ComputationSummary,
        instruction: Instruction,
        shapes: dict[str, str],
        parameters: dict[str, int],
    ) -> Sequence[str]:
        """Add an instruction; return the names of its operands, without tuples."""
        opcode = instruction.opcode
        summary.executed += opcode not in _IDLE
        names = instruction.operand_names if opcode not in {"parameter", "constant", "iota", "tuple"} else ()
        operands = [whole(shapes.get(name, "")) for name in names]
        for place, name in enumerate(names):
            if name in parameters:
                note(summary.reads.setdefault(parameters[name], Reads()), instruction, place, operands)
        if opcode not in _IDLE:
            kind = kind_of(instruction)
            summary.kinds[kind] = summary.kinds.get(kind, 0) + 1
        if opcode in _CALLS:
            self._call(summary, instruction, operands)
            return names
        found: CountedCost = cost(instruction, operands)
        summary.operations += found.operations
        summary.bytes += found.bytes
        summary.at_least |= not found.is_known
        applied = applied_by(instruction) if found.applied and opcode in APPLIES else ()
        summary.calls += [CalledComputations((name,), found.applied, touches=False) for name in applied]
        if opcode not in _IDLE:
            each = tuple((name, found.applied) for name in applied)
            self._notes.add(
                summary.name,
                InstructionCost(instruction, found.operations, found.bytes, found.is_known, each),
            )
        return names

    def _call(self, summary: ComputationSummary, instruction: Instruction, operands: list[Extent]) -> None:
        made = made_by(instruction)
        if not made:
            summary.at_least = True
        elif instruction.opcode == "conditional":
            summary.calls.append(CalledComputations(tuple(name for name, _ in made), 1))
        elif instruction.opcode in FUSIONS:
            summary.calls.append(CalledComputations((made[0][0],), 1, touches=False))
            fused = made[0][0], results(instruction)
            summary.fusions.append(fused)
            touched = sum(each.bytes for each in (*operands, *fused[1]))
            self._notes.add(
                summary.name, InstructionCost(instruction, 0, touched, is_known=True, fused=fused)
            )
            self._notes.leave_out(fused[0])
        else:
            for name, times in made:
                if times is None:
                    self._unstated.append((summary, len(summary.calls), instruction))
                summary.calls.append(
                    CalledComputations((name,), 1 if times is None else times, times is not None)
                )

    def _find_parts(
        self, summary: ComputationSummary, listed: list[Instruction], shapes: dict[str, str]
    ) -> None:
        """Note the results of a fusion that update a slice of an existing array."""
        by_name = {each.name: each for each in listed if each.opcode == "dynamic-update-slice"}
        if not by_name:
            return
        used = {name: each for each in listed for name in each.operand_names}
        for name, each in by_name.items():
            user, place = used.get(name), 0
            if user is not None:
                if user.opcode != "tuple" or user.name in used:
                    continue
                place = user.operand_names.index(name)
            if len(update := each.operand_names) > 1:
                summary.writes[place] = whole(shapes.get(update[1], "")).bytes

    def _settle(self) -> None:
        """Find the rounds of the loops after all computations have been added."""
        while self._unstated:
            summary, place, instruction = self._unstated.pop()
            name = summary.calls[place].names[0]
            times = runs(name, instruction, self._loops.rounds(summary.name, instruction.name))
            if times is not None:
                summary.calls[place] = CalledComputations((name,), times)

    def work(self, entry: str | None, pause: Callable[[], None]) -> Work | None:
        """Return the work of a launch; None if the entry is unknown or the program is too large."""
        entry = self._entry() if entry is None else entry
        if self.is_too_large or entry not in self._summaries:
            return None
        self._settle()
        return self._work(entry, pause, 0)

    def executed(
        self, frames: Frames, most: int, pause: Callable[[], None], entry: str | None = None
    ) -> dict[str, ExecutedOperation]:
        """Return the operations of a launch by name, at most this many: those that cost most."""
        entry = self._entry() if entry is None else entry
        if self.is_too_large or entry not in self._summaries:
            return {}
        self._settle()
        found: list[tuple[InstructionCost, ExecutedOperation]] = []
        for name, times in self._times(entry).items():
            for noted in self._notes.noted_in(name):
                found.append((noted, self._executed(noted, times, pause)))
                pause()
        if len(found) > most:
            found = nlargest(most, found, key=lambda each: each[1].weight)
        executed = {}
        for noted, each in found:
            executed[noted.instruction.name] = each._replace(line=self._line(noted, frames))
            pause()
        return executed

    def _line(self, noted: InstructionCost, frames: Frames) -> str:
        """Return the line of an instruction; for a fusion without one, the last line stated inside it."""
        line = frames.line(noted.instruction)
        if line or noted.fused is None or (inside := self._summaries.get(noted.fused[0])) is None:
            return line
        return "" if inside.placed is None else frames.line(inside.placed)

    def _times(self, entry: str) -> dict[str, int | None]:
        """Return how often a launch runs each computation; None if a loop or a condition hides the number."""
        order: dict[str, None] = {}

        def visit(name: str, depth: int) -> None:
            if name in order or name not in self._summaries or depth > MAX_CALL_DEPTH:
                return
            for call in self._summaries[name].calls:
                for called in call.names if call.touches else ():
                    visit(called, depth + 1)
            order[name] = None

        visit(entry, 0)
        times: dict[str, int | None] = dict.fromkeys(reversed(order), 0)
        times[entry] = 1
        for name, count in times.items():
            for call in self._summaries[name].calls:
                is_known = call.is_known and len(call.names) == 1
                for called in call.names if call.touches else ():
                    before = times.get(called)
                    if before is not None:
                        known = count is not None and is_known
                        times[called] = before + (count or 0) * call.times if known else None
        return times

    def _executed(
        self, noted: InstructionCost, times: int | None, pause: Callable[[], None]
    ) -> ExecutedOperation:
        operations, touched, is_known = noted.operations, noted.bytes, noted.is_known
        kind = kind_of(noted.instruction)
        called = noted.applied
        if noted.fused is not None:
            name, written = noted.fused
            called, touched = ((name, 1),), self._touched(name, written)
            if name in self._summaries:
                kind = kind_of_fusion(self._summaries[name].kinds)
        for name, count in called:
            work = self._work(name, pause, 0)
            operations += count * work.operations
            is_known = is_known and not work.at_least
        return ExecutedOperation(kind, "", operations if is_known else None, touched, times)

    def sides(self) -> tuple[int, int | None] | None:
        """Return the bytes of a launch's arguments and results; None if the entry is unknown."""
        entry = self._entry()
        if entry is None:
            return None
        return self._summaries[entry].taken, self._summaries[entry].returned

    def _entry(self) -> str | None:
        """Return the computation without a caller; of several, the one that has JAX's name for the entry."""
        used = {name for each in self._summaries.values() for call in each.calls for name in call.names}
        found = [name for name in self._summaries if name not in used]
        named = [name for name in found if name.startswith("main")]
        listed = named or found
        return listed[0] if len(listed) == 1 else None

    def _work(self, computation: str, pause: Callable[[], None], depth: int) -> Work:
        if computation in self._works:
            return self._works[computation]
        summary = self._summaries.get(computation)
        if summary is None or depth > MAX_CALL_DEPTH:
            return _UNKNOWN
        self._works[computation] = _UNKNOWN  # ends recursion: a computation that calls itself has no figure
        operations, touched, at_least = summary.operations, summary.bytes, summary.at_least
        executed: int | None = summary.executed
        for call in summary.calls:
            works = [self._work(name, pause, depth + 1) for name in call.names]
            operations += call.times * min(each.operations for each in works)
            if call.touches:
                touched += call.times * min(each.bytes for each in works)
                counts = [each.executed for each in works if each.executed is not None]
                is_counted = executed is not None and call.is_known and len(counts) == len(works)
                executed = (executed or 0) + call.times * max(counts) if is_counted else None
            at_least |= not call.is_known or any(each.at_least for each in works)
            # Which branch runs is decided in each launch.
            at_least |= len({(each.operations, each.bytes) for each in works}) > 1
        for name, written in summary.fusions:
            touched += self._touched(name, written)
        pause()
        found = Work(min(operations, MOST_TIMES), min(touched, MOST_TIMES), at_least, executed)
        self._works[computation] = found
        return found

    def _touched(self, name: str, into: Iterable[Extent]) -> int:
        """Return the bytes that a fusion reads from its operands and writes to its results."""
        inside = self._summaries.get(name, ComputationSummary())
        written = sum(inside.writes.get(place, each.bytes) for place, each in enumerate(into))
        return written + sum(each.whole or each.slices for each in inside.reads.values())
