"""The summary of a computation of a program, made before its callers are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.programs.counting import NOTHING, Extent, extents

if TYPE_CHECKING:
    from jaxtop_agent.programs.lines import Instruction


class CalledComputations(NamedTuple):
    """The computations that an instruction may run: the branches of a conditional, else a single one.

    `touches` is true if they run on their own, so that their bytes count too.
    """

    names: tuple[str, ...]
    times: int
    is_known: bool = True
    touches: bool = True


@dataclass(slots=True)
class Reads:
    """The bytes read from a parameter: the whole of it, or slices."""

    whole: int = 0
    slices: int = 0


@dataclass(slots=True)
class ComputationSummary:
    """The figures of a computation: its own work, its calls, and the bytes that it touches as a fusion.

    `reads` has the bytes read from each parameter, whole or as slices. `writes` has the bytes of results that
    are written only in part, by their position. `taken` and `returned` are the bytes of its parameters and of
    its result.
    """

    name: str = ""
    operations: int = 0
    bytes: int = 0
    at_least: bool = False
    executed: int = 0
    calls: list[CalledComputations] = field(default_factory=list)
    fusions: list[tuple[str, tuple[Extent, ...]]] = field(default_factory=list)
    reads: dict[int, Reads] = field(default_factory=dict)
    writes: dict[int, int] = field(default_factory=dict)
    # How many of its instructions there are of each kind.
    kinds: dict[str, int] = field(default_factory=dict)
    # The last instruction whose line the compiler states.
    placed: Instruction | None = None
    taken: int = 0
    returned: int | None = None


def size(shape: str) -> int:
    return sum(each.bytes for each in extents(shape))


def whole(shape: str) -> Extent:
    """Return the array of this shape; a tuple counts nothing, because its address is passed."""
    listed = () if shape.startswith("(") else extents(shape)
    return listed[0] if len(listed) == 1 else NOTHING


def note(reads: Reads, instruction: Instruction, place: int, operands: list[Extent]) -> None:
    """Note how much of a parameter an instruction reads; instructions that read all of it share one read."""
    if instruction.opcode == "dynamic-update-slice" and place == 0:
        return  # the result overwrites it in place
    if instruction.opcode in {"slice", "dynamic-slice", "gather"} and place == 0:
        reads.slices += sum(each.bytes for each in extents(instruction.shape))
    else:
        reads.whole = operands[place].bytes
