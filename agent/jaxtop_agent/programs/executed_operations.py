"""The operations that a device runs one by one: what each is, the line behind it, and the cost of one run."""

from __future__ import annotations

import re
from bisect import bisect_left
from operator import neg
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.programs.collective_instructions import KINDS
from jaxtop_agent.programs.counting import (
    ELEMENTWISE,
    FUSIONS,
    TRANSCENDENTAL,
    Extent,
    calls_python,
    is_convolution,
    is_product,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop_agent.programs.lines import Instruction

MATMUL, CONVOLUTION, COLLECTIVE, FUSION = "matmul", "convolution", "collective", "fusion"
ELEMENTS, REDUCE, COPY, INDEXING, OTHER = "elementwise", "reduce", "copy", "gather or scatter", "other"
LIBRARY, PYTHON = "library call", "callback"
_OF_OPCODES = {
    MATMUL: "dot",
    CONVOLUTION: "convolution",
    REDUCE: "reduce reduce-window select-and-scatter",
    COPY: """copy transpose reshape concatenate pad slice dynamic-slice iota
        dynamic-update-slice broadcast reverse bitcast-convert""",
    INDEXING: "gather scatter",
    "sort": "sort topk",
    "fft": "fft",
    "random": "rng rng-bit-generator rng-get-and-update-state",
    "transfer": "infeed outfeed send recv",
    "solve": "cholesky triangular-solve",
}
_KINDS = {
    **dict.fromkeys(ELEMENTWISE | TRANSCENDENTAL, ELEMENTS),
    **{opcode: kind for kind, listed in _OF_OPCODES.items() for opcode in listed.split()},
    **dict.fromkeys(KINDS, COLLECTIVE),
}
_PART = re.compile(r"-(?:start|update|done)")
# The most instructions of a program that are noted; a note takes about a kilobyte until the program is read.
MOST_NOTED = 8_192
# Operations of these kinds decide what a fusion is; the rest of it comes with them.
_LEADING = (MATMUL, CONVOLUTION, COLLECTIVE)


class ExecutedOperation(NamedTuple):
    """An operation as a launch runs it; None and "" stand for what the compiler's text does not show.

    `operations` and `bytes` are those of one run, and `times` is how often a launch runs it.
    """

    kind: str
    line: str = ""
    operations: int | None = None
    bytes: int | None = None
    times: int | None = None

    @property
    def weight(self) -> int:
        """A figure that grows with its time in a launch."""
        return weight(self.operations or 0, self.bytes or 0) * (1 if self.times is None else self.times)


class InstructionCost(NamedTuple):
    """An instruction with its own cost, how often it applies other computations, and what it fuses.

    The bytes of a fusion are those of its whole operands and results, of which it may use only a part.
    """

    instruction: Instruction
    operations: int
    bytes: int
    is_known: bool
    applied: tuple[tuple[str, int], ...] = ()
    fused: tuple[str, tuple[Extent, ...]] | None = None

    @property
    def weight(self) -> int:
        return weight(self.operations, self.bytes)


class Notes:
    """The noted instructions of a program that are not fused; of very many, those that cost most."""

    def __init__(self) -> None:
        self._listed: dict[str, list[InstructionCost]] = {}  # by computation
        self._count = 0
        self._fused: set[str] = set()

    def add(self, computation: str, noted: InstructionCost) -> None:
        if computation not in self._fused:
            self._listed.setdefault(computation, []).append(noted)
            self._count += 1

    def leave_out(self, fused: str) -> None:
        """Drop the notes of a computation that runs as a part of a fusion."""
        self._fused.add(fused)
        self._count -= len(self._listed.pop(fused, ()))

    def noted_in(self, computation: str) -> list[InstructionCost]:
        return self._listed.get(computation, [])

    @property
    def are_too_many(self) -> bool:
        return self._count > MOST_NOTED

    def drop_lightest(self) -> Iterator[None]:
        """Drop the half that costs least; yield often."""
        weights: list[int] = []
        for listed in self._listed.values():
            weights += [each.weight for each in listed]
            yield
        weights.sort(reverse=True)
        least = weights[MOST_NOTED // 2]
        room = MOST_NOTED // 2 - bisect_left(weights, -least, key=neg)
        for computation, listed in self._listed.items():
            left: list[InstructionCost] = []
            for each in listed:
                if each.weight > least:
                    left.append(each)
                elif each.weight == least and room:
                    left.append(each)
                    room -= 1
            self._listed[computation] = left
            self._count -= len(listed) - len(left)
            yield


def weight(operations: int, touched: int) -> int:
    """Return a figure that grows with the time of a run, for the choice of what is stored."""
    return touched + operations // 8


def kind_of(instruction: Instruction) -> str:
    """Return the kind of an instruction; that of a fusion depends on what it fuses."""
    if instruction.opcode in FUSIONS:
        return FUSION
    if instruction.opcode != "custom-call":
        return _KINDS.get(_PART.sub("", instruction.opcode), OTHER)
    if is_product(instruction):
        return MATMUL
    if is_convolution(instruction):
        return CONVOLUTION
    return PYTHON if calls_python(instruction) else LIBRARY


def kind_of_fusion(inside: dict[str, int]) -> str:
    """Return the kind of a fusion of this many operations of each kind."""
    for kind in _LEADING:
        if kind in inside:
            return kind
    return next(iter(inside)) if sum(inside.values()) == 1 else FUSION
