"""Operations and bytes of one launch of a program: each computation counts as often as it runs.

XLA's own sum counts the body of a loop once. Here a loop body counts once per round, and a conditional counts
its largest branch. A sum that is not fully known is a lower bound: a loop with an unknown number of rounds
counts one, and a library call of unknown cost counts no operations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.programs.calls import DEEPEST, MOST_TIMES, applied_by, made_by
from jaxtop_agent.programs.counting import APPLIES, NOTHING, Cost, Extent, cost, extents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtop_agent.programs.lines import Instruction

# A program with more instructions takes too long to read, so it has no figure.
MOST_INSTRUCTIONS = 200_000
_CALLS = frozenset({"while", "call", "fusion", "conditional", "async-start"})


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


class _Called(NamedTuple):
    """The computations that an instruction may run; the largest of them counts.

    `touches` is true if they run on their own, so that their bytes count too.
    """

    names: tuple[str, ...]
    times: int
    is_known: bool = True
    touches: bool = True


@dataclass(slots=True)
class _Reads:
    """The bytes read from a parameter: the whole of it, or slices."""

    whole: int = 0
    slices: int = 0


@dataclass(slots=True)
class _Summary:
    """The figures of a computation: its own work, its calls, and the bytes that it touches as a fusion.

    `reads` has the bytes read from each parameter, whole or as slices. `writes` has the bytes of results that
    are written only in part, by their position. `taken` and `returned` are the bytes of its parameters and of
    its result.
    """

    operations: int = 0
    bytes: int = 0
    at_least: bool = False
    executed: int = 0
    calls: list[_Called] = field(default_factory=list)
    fusions: list[tuple[str, tuple[Extent, ...]]] = field(default_factory=list)
    reads: dict[int, _Reads] = field(default_factory=dict)
    writes: dict[int, int] = field(default_factory=dict)
    taken: int = 0
    returned: int | None = None


class Operations:
    """The sum over the computations of a module, which may be added in any order."""

    def __init__(self) -> None:
        self._summaries: dict[str, _Summary] = {}
        self._instructions = 0
        self._works: dict[str, Work] = {}

    def add(self, computation: str, listed: list[Instruction]) -> Iterator[None]:
        """Add a computation with all of its instructions; yield often."""
        self._instructions += len(listed)
        if self.is_too_large:
            self._summaries.clear()
            return
        shapes = {each.name: each.shape for each in listed}
        summary = self._summaries[computation] = _Summary()
        parameters = {
            each.name: int(each.operands)
            for each in listed
            if each.opcode == "parameter" and each.operands.isdigit()
        }
        used: set[str] = set()
        for number, each in enumerate(listed):
            used.update(self._take(summary, each, shapes, parameters))
            if not number % 32:
                yield
        self._find_parts(summary, listed, shapes)
        summary.taken = sum(_size(shapes[each]) for each in parameters)
        unused = [each for each in listed if each.name not in used]
        results = [each for each in unused if each.opcode == "tuple"] or unused
        summary.returned = _size(results[0].shape) if len(results) == 1 else None

    @property
    def is_too_large(self) -> bool:
        """Whether the program has too many instructions to be read."""
        return self._instructions > MOST_INSTRUCTIONS

    def _take(
        self, summary: _Summary, by: Instruction, shapes: dict[str, str], parameters: dict[str, int]
    ) -> Sequence[str]:
        """Add an instruction; return the names of its operands, but for those of tuples."""
        opcode = by.opcode
        summary.executed += opcode not in _IDLE
        names = by.operand_names if opcode not in {"parameter", "constant", "iota", "tuple"} else ()
        operands = [_whole(shapes.get(name, "")) for name in names]
        for place, name in enumerate(names):
            if name in parameters:
                _note(summary.reads.setdefault(parameters[name], _Reads()), by, place, operands)
        if opcode in _CALLS:
            self._call(summary, by)
            return names
        found: Cost = cost(by, operands)
        summary.operations += found.operations
        summary.bytes += found.bytes
        summary.at_least |= not found.is_known
        if found.applied and opcode in APPLIES:
            summary.calls += [_Called((name,), found.applied, touches=False) for name in applied_by(by)]
        return names

    def _call(self, summary: _Summary, by: Instruction) -> None:
        made = made_by(by)
        if not made:
            summary.at_least = True
        elif by.opcode == "conditional":
            summary.calls.append(_Called(tuple(name for name, _ in made), 1))
        elif by.opcode == "fusion":
            summary.calls.append(_Called((made[0][0],), 1, touches=False))
            summary.fusions.append((made[0][0], extents(by.shape)))
        else:
            summary.calls += [
                _Called((name,), 1 if times is None else times, is_known=times is not None)
                for name, times in made
            ]

    def _find_parts(self, summary: _Summary, listed: list[Instruction], shapes: dict[str, str]) -> None:
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
                summary.writes[place] = _whole(shapes.get(update[1], "")).bytes

    def work(self, entry: str | None, pause: Callable[[], None]) -> Work | None:
        """Return the work of a launch; None if the entry is unknown or the program is too large."""
        entry = self._entry() if entry is None else entry
        if self.is_too_large or entry not in self._summaries:
            return None
        return self._work(entry, pause, 0)

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
        if summary is None or depth > DEEPEST:
            return _UNKNOWN
        self._works[computation] = _UNKNOWN  # ends recursion: a computation that calls itself has no figure
        operations, touched, at_least = summary.operations, summary.bytes, summary.at_least
        executed: int | None = summary.executed
        for call in summary.calls:
            works = [self._work(name, pause, depth + 1) for name in call.names]
            operations += call.times * max(each.operations for each in works)
            if call.touches:
                touched += call.times * max(each.bytes for each in works)
                counts = [each.executed for each in works if each.executed is not None]
                is_counted = executed is not None and call.is_known and len(counts) == len(works)
                executed = (executed or 0) + call.times * max(counts) if is_counted else None
            at_least |= not call.is_known or any(each.at_least for each in works)
        for name, results in summary.fusions:
            touched += self._touched(name, results)
        pause()
        found = Work(min(operations, MOST_TIMES), min(touched, MOST_TIMES), at_least, executed)
        self._works[computation] = found
        return found

    def _touched(self, name: str, results: Iterable[Extent]) -> int:
        """Return the bytes that a fusion reads from its operands and writes to its results."""
        inside = self._summaries.get(name, _Summary())
        written = sum(inside.writes.get(place, each.bytes) for place, each in enumerate(results))
        return written + sum(each.whole or each.slices for each in inside.reads.values())


def _size(shape: str) -> int:
    return sum(each.bytes for each in extents(shape))


def _whole(shape: str) -> Extent:
    """Return the array of this shape; a tuple counts nothing, because its address is passed."""
    listed = extents(shape)
    return listed[0] if len(listed) == 1 and not shape.startswith("(") else NOTHING


def _note(reads: _Reads, by: Instruction, place: int, operands: list[Extent]) -> None:
    """Note how much of a parameter an instruction reads; instructions that read all of it share one read."""
    if by.opcode == "dynamic-update-slice" and place == 0:
        return  # the result overwrites it in place
    if by.opcode in {"slice", "dynamic-slice", "gather"} and place == 0:
        reads.slices += sum(each.bytes for each in extents(by.shape))
    else:
        reads.whole = operands[place].bytes
