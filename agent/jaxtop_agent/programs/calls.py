"""The calls between the computations of a program, and how often a launch runs each computation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.programs.loops import Loops

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.programs.lines import Instruction

_NAME = r"%?([^\s,{}()]+)"
_BODY, _CONDITION = re.compile(rf"\bbody={_NAME}"), re.compile(rf"\bcondition={_NAME}")
_ONE = re.compile(rf"\b(?:to_apply|calls)={_NAME}")
_SEVERAL = re.compile(
    rf"\b(?:branch_computations|called_computations)=\{{([^}}]*)\}}|\b(?:true|false)_computation={_NAME}"
)
_APPLIED = re.compile(rf"\b(?:to_apply|select|scatter)={_NAME}")
_COMMA = re.compile(r"[\s,%]+")
# The instructions that run one computation, once. Those that end in "-start" run it during what follows.
CALLS_ONE = frozenset({"call", "fusion", "async-start", "call-start", "fusion-start"})
# The depth of calls inside each other that is followed.
MAX_CALL_DEPTH = 100
MOST_TIMES = 1 << 53


class Call(NamedTuple):
    """A call of a computation by an instruction of another; `times` is None if it is unknown."""

    caller: str
    instruction: Instruction
    times: int | None


def made_by(instruction: Instruction) -> list[tuple[str, int | None]]:
    """Return the computations that an instruction calls, and how many times it calls each per run."""
    match instruction.opcode:
        case "while":
            made = (instruction.attribute(_BODY), instruction.attribute(_CONDITION))
            return [(name, runs(name, instruction, instruction.trips)) for name in made if name]
        case _ if instruction.opcode in CALLS_ONE:
            name = instruction.attribute(_ONE)
            return [(name, 1)] if name else []
        case "conditional" | "custom-call":
            found = _SEVERAL.finditer(instruction.attributes)
            names = {name for each in found for name in _COMMA.split(each[1] or each[2]) if name}
            return [(name, None) for name in sorted(names)]
    return []


def runs(computation: str, instruction: Instruction, rounds: int | None) -> int | None:
    """Return how often a loop of this many rounds runs its body or its condition; None if it is no loop."""
    if rounds is None or instruction.opcode != "while":
        return None
    return rounds + (computation == instruction.attribute(_CONDITION))


def applied_by(instruction: Instruction) -> list[str]:
    """Return the computations that an instruction applies to the elements of its operands."""
    return _APPLIED.findall(instruction.attributes)


class Calls:
    """All calls of a module that may lead to a collective."""

    def __init__(self) -> None:
        self._by_callee: dict[str, dict[tuple[str, str], Call]] = {}
        self._loops = Loops()
        self._times: dict[str, int | None] = {}

    def add(self, caller: str, instruction: Instruction) -> None:
        for name, times in made_by(instruction):
            self._by_callee.setdefault(name, {})[caller, instruction.name] = Call(caller, instruction, times)

    def add_computation(self, computation: str, listed: list[Instruction]) -> None:
        """Note all instructions of a computation, from which the rounds of loops are found."""
        self._loops.add(computation, listed)

    def calls_to(self, computation: str) -> list[Call]:
        return list(self._by_callee.get(computation, {}).values())

    def roots(self, computations: set[str], pause: Callable[[], None]) -> set[str]:
        """Return the computations that lead to the given ones and that no other computation calls."""
        found: set[str] = set()
        seen, ahead = set(computations), list(computations)
        while ahead:
            name = ahead.pop()
            callers = {call.caller for call in self.calls_to(name)}
            if not callers:
                found.add(name)
            ahead += callers - seen
            seen |= callers
            pause()
        return found

    def times(self, computation: str, entries: set[str], depth: int = 0) -> int | None:
        """Return how often a launch runs a computation; None if a loop or a condition leaves it unknown."""
        if computation in entries:
            return 1
        if computation not in self._times:
            self._times[computation] = None  # ends recursion: a computation that calls itself has no count
            self._times[computation] = self._sum(computation, entries, depth)
        return self._times[computation]

    def _sum(self, computation: str, entries: set[str], depth: int) -> int | None:
        calls = self.calls_to(computation)
        if not calls or depth > MAX_CALL_DEPTH:
            return None
        total = 0
        for call in calls:
            outer, each = self.times(call.caller, entries, depth + 1), call.times
            if each is None:
                each = runs(
                    computation, call.instruction, self._loops.rounds(call.caller, call.instruction.name)
                )
            if outer is None or each is None:
                return None
            total += outer * each
        return total if total < MOST_TIMES else None
