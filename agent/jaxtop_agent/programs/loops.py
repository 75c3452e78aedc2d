"""How many rounds the loops of a program run, where the compiler does not state it, as on TPUs.

A loop whose condition compares a counter with a bound has a known number of rounds: the counter starts at a
constant and each round adds a constant to it, and the bound is a constant, in the loop or carried through it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jaxtop_agent.programs.lines import Instruction

_BODY, _CONDITION = re.compile(r"\bbody=%?([^\s,{}()]+)"), re.compile(r"\bcondition=%?([^\s,{}()]+)")
_DIRECTION = re.compile(r"\bdirection=(LT|LE|GT|GE|NE)\b")
_INDEX = re.compile(r"\bindex=(\d{1,9})\b")
_NUMBER = re.compile(r"-?\d{1,18}")
_INTEGER = re.compile(r"[su](8|16|32|64)\[\]")
# The result of these instructions is their operand.
_SAME = frozenset({"copy", "copy-start", "copy-done", "bitcast", "reshape", "opt-barrier"})
_SIGNS = {"add": 1, "subtract": -1}
_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}
# The number of instructions that are followed back to a constant.
MAX_SEARCH_STEPS = 16
# The number of trips of a loop that a message can hold.
MAX_TRIPS = 1 << 53


class Value(NamedTuple):
    """An integer: a number, or with an element of the tuple that a loop carries, this added to it."""

    number: int
    element: int | None = None


class _Test(NamedTuple):
    """The condition of a loop: it goes on while the comparison holds."""

    left: Value
    direction: str
    right: Value


class _While(NamedTuple):
    """A loop: its condition, its body, and the integers among the elements that it begins with."""

    condition: str
    body: str
    begins: dict[int, int]


class Loops:
    """Takes the computations of a module, in any order, and then returns the rounds of their loops."""

    def __init__(self) -> None:
        self._tests: dict[str, _Test] = {}  # by condition
        self._steps: dict[str, dict[int, int]] = {}  # by body: what a round adds to each integer
        self._whiles: dict[tuple[str, str], _While] = {}

    def add(self, computation: str, listed: list[Instruction]) -> None:
        parameters = [each for each in listed if each.opcode == "parameter"]
        whiles = [each for each in listed if each.opcode == "while" and each.trips is None]
        is_part = len(parameters) == 1 and parameters[0].shape.startswith("(")
        if not whiles and not is_part:
            return
        values = _Integers(listed)
        for each in whiles:
            body, condition = each.attribute(_BODY), each.attribute(_CONDITION)
            if body and condition:
                self._whiles[computation, each.name] = _While(condition, body, values.begins(each.operand))
        if is_part and (test := values.test()) is not None:
            self._tests[computation] = test
        elif is_part and (steps := values.steps()):
            self._steps[computation] = steps

    def rounds(self, computation: str, name: str) -> int | None:
        """Return the rounds of a loop of a computation; None if they are unknown."""
        loop = self._whiles.get((computation, name))
        test = None if loop is None else self._tests.get(loop.condition)
        if loop is None or test is None:
            return None
        left, direction, right = test
        steps = self._steps.get(loop.body, {})
        if left.element is None or not steps.get(left.element):
            left, direction, right = right, _MIRRORED[direction], left
        first, bound = _first(left, loop.begins), _first(right, loop.begins)
        if left.element is None or first is None or bound is None:
            return None
        if right.element is not None and steps.get(right.element) != 0:
            return None
        return _rounds(bound - first, steps.get(left.element, 0), direction)


class _Integers:
    """The integers of a computation."""

    def __init__(self, listed: list[Instruction]) -> None:
        self._listed = listed
        self._by_name = {each.name: each for each in listed}
        self._known: dict[str, Value | None] = {}

    def begins(self, name: str) -> dict[int, int]:
        """Return the known integers among the elements of a tuple, by their places."""
        found = {place: self.value_of(each) for place, each in enumerate(self._elements(name))}
        return {place: each.number for place, each in found.items() if each and each.element is None}

    def test(self) -> _Test | None:
        """Return the comparison that a computation returns."""
        instruction = self._returned("compare")
        direction = None if instruction is None else instruction.attribute(_DIRECTION)
        sides = [] if instruction is None else [self.value_of(name) for name in instruction.operand_names]
        if direction is None or len(sides) != 2 or sides[0] is None or sides[1] is None:
            return None
        return _Test(sides[0], direction, sides[1])

    def steps(self) -> dict[int, int]:
        """Return what a computation adds to the integers of a tuple that it returns, by their places."""
        result = self._returned("tuple")
        listed = [] if result is None else self._elements(result.name)
        found = {place: self.value_of(each) for place, each in enumerate(listed)}
        return {place: each.number for place, each in found.items() if each and each.element == place}

    def value_of(self, name: str, depth: int = 0) -> Value | None:
        """Return the integer that a name stands for; None if it depends on anything else."""
        instruction = self._by_name.get(name)
        if instruction is None or depth > MAX_SEARCH_STEPS:
            return None
        if name not in self._known:
            self._known[name] = None  # ends recursion: an instruction that uses itself has no value
            self._known[name] = self._found(instruction, depth)
        return self._known[name]

    def _found(self, instruction: Instruction, depth: int) -> Value | None:
        if instruction.opcode in _SAME:
            return self.value_of(instruction.operand, depth + 1)
        if instruction.opcode == "get-tuple-element":
            return self._carried(instruction)
        if instruction.opcode in _SIGNS:
            sides = [self.value_of(each, depth + 1) for each in instruction.operand_names]
            return _sum(sides, _SIGNS[instruction.opcode]) if len(sides) == 2 else None
        is_number = (
            instruction.opcode == "constant"
            and _INTEGER.match(instruction.shape)
            and _NUMBER.fullmatch(instruction.operands)
        )
        return Value(int(instruction.operands)) if is_number else None

    def _carried(self, instruction: Instruction) -> Value | None:
        source, index = self._by_name.get(instruction.operand), instruction.attribute(_INDEX)
        is_carried = source is not None and source.opcode == "parameter" and _INTEGER.match(instruction.shape)
        return Value(0, int(index)) if is_carried and index else None

    def _elements(self, name: str) -> list[str]:
        instruction = self._by_name.get(name)
        return instruction.operand_names if instruction is not None and instruction.opcode == "tuple" else []

    def _returned(self, opcode: str) -> Instruction | None:
        """Return the only instruction with this opcode whose result no other one uses."""
        found = [each for each in self._listed if each.opcode == opcode]
        if len(found) > 1:
            with_operands = (each for each in self._listed if each.opcode not in {"parameter", "constant"})
            used = {name for each in with_operands for name in each.operand_names}
            found = [each for each in found if each.name not in used]
        return found[0] if len(found) == 1 else None


def _sum(sides: list[Value | None], sign: int) -> Value | None:
    one, other = sides
    if one is None or other is None or (other.element is not None and (sign < 0 or one.element is not None)):
        return None
    return Value(one.number + sign * other.number, other.element if one.element is None else one.element)


def _first(value: Value, begins: dict[int, int]) -> int | None:
    """Return what a value is before the first round."""
    if value.element is None:
        return value.number
    begin = begins.get(value.element)
    return None if begin is None else begin + value.number


def _rounds(distance: int, step: int, direction: str) -> int | None:
    """Return how many steps a counter at 0 takes until it has passed `distance`; None if it never does."""
    if direction in {"GT", "GE"}:
        distance, step, direction = -distance, -step, _MIRRORED[direction]
    if direction == "NE":
        rounds = distance // step if step and not distance % step else -1
        return rounds if 0 <= rounds < MAX_TRIPS else None
    distance += direction == "LE"
    if distance <= 0:
        return 0
    rounds = -(-distance // step) if step > 0 else MAX_TRIPS
    return rounds if rounds < MAX_TRIPS else None
