"""Which collectives the partitioner added, and the operand whose sharding its consumer does not want.

From JAX 0.11 on, the compiler marks the collectives that the partitioner added, and gives most of them the
name of their operand: the operation that they are for is found among those that use the result, unless they
have its name. Before, a collective has the name of that operation. If it is not a collective of JAX, such as
`psum`, but `dot_general` or `sort`, the partitioner added it.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.names import legible, shorten
from jaxtop_agent.programs import shapes
from jaxtop_agent.programs.calls import made_by
from jaxtop_agent.programs.collective_instructions import KINDS, PERMUTE, REDUCE, SCATTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtop_agent.programs.collective_instructions import FoundCollective
    from jaxtop_agent.programs.lines import Instruction
    from jaxtop_agent.programs.source_lines import Frames

    Users = dict[str, list[tuple[Instruction, int]]]

REDUCTION, RESHARDING, REMATERIALIZATION = "reduction", "resharding", "rematerialization"
# The collectives that a script can write, as JAX names them.
_OF_JAX = re.compile(
    r"(psum|pmax|pmin|pmean|ppermute|pbroadcast|psend|precv|pgather|preduced"
    r"|all_gather|all_to_all|ragged_all_to_all|reduce_scatter|psum_scatter|unreduced_\w+)"
    r"(_invariant|_reduced|2)?(_start|_done)?"
)
# No partitioner adds these; the compiler drops the names of some.
_ONLY_WRITTEN = frozenset({"ragged-all-to-all", "collective-broadcast"})
# These operations move data and compute nothing.
_MOVES = frozenset(
    {"bitcast", "copy", "copy-start", "copy-done", "convert", "transpose", "reshape", "slice"}
    | {"dynamic-slice", "get-tuple-element", "opt-barrier", "concatenate", "pad"}
)
# Partitioners often need several of these to get from one sharding to another.
_STEPS = ("all-to-all", "all-gather", PERMUTE)
_CALLS = frozenset({"while", "call", "async-start"})
# What a computation that only moves data may contain besides.
_IDLE = frozenset({"parameter", "constant", "tuple", "partition-id", "clamp", "broadcast"})
_IS_MARKED = 'is_spmd_generated="true"'
_DIMENSIONS = re.compile(r"\bdimensions=\{(\d+)\}")
_INDEX = re.compile(r"\bindex=(\d+)")
MAX_SEARCH_STEPS = 64
# The most instructions of a program that are stored for the search; one takes up to a kilobyte.
MOST_INSIDE = 16_384
BETWEEN_PAUSES = 32
# The length of the name of the code that caused a resharding.
MAX_NAME_CHARS = 60


class AddedCollective(NamedTuple):
    """Why the partitioner added a collective: the operand, how it is sharded, what its consumer wants.

    `line` is that of the operand, where the compiler does not name the operation. `consumer` is the operation
    that it is for, where the compiler names another.
    """

    how: str
    operand: str = ""
    has: str = ""
    wants: str = ""
    line: str = ""
    consumer: Instruction | None = None


class Partitioner:
    """Takes the computations of a module, in any order; then it explains their collectives.

    `cuts` has the number of pieces of each dimension of each argument of the program, as far as it is known.
    """

    def __init__(self, cuts: Sequence[Sequence[int]] = ()) -> None:
        self._cuts = cuts
        # Of computations with collectives or loops: their instructions by name, as far as there is room.
        self._inside: dict[str, dict[str, Instruction]] = {}
        self._room = MOST_INSIDE
        self._cut: set[str] = set()
        # Of the others: which only move data, which parameters are only sliced, and what computes last.
        self._moving: set[str] = set()
        self._sliced: dict[str, dict[int, Instruction]] = {}
        self._computing: dict[str, Instruction] = {}
        self._users: dict[str, Users] = {}
        self._callers: dict[str, tuple[str, Instruction]] = {}

    def add(self, computation: str, listed: list[Instruction]) -> None:
        opcodes = {each.opcode for each in listed}
        if any(opcode.startswith(KINDS) for opcode in opcodes) or opcodes & _CALLS:
            if len(listed) > self._room:
                self._cut.add(computation)
            self._inside[computation] = {each.name: each for each in listed[: self._room]}
            self._room -= len(self._inside[computation])
            for each in listed:
                if each.opcode in _CALLS:
                    self._callers.update((name, (computation, each)) for name, _ in made_by(each))
            return
        if opcodes <= _MOVES | _IDLE:
            self._moving.add(computation)
        else:
            self._computing[computation] = next(
                each for each in reversed(listed) if each.opcode not in _MOVES | _IDLE
            )
        if "dynamic-slice" in opcodes:
            self._sliced[computation] = _only_sliced(listed)

    def added(
        self, found: FoundCollective, frames: Frames, group_size: int | None, pause: Callable[[], None]
    ) -> AddedCollective | None:
        """Return why the partitioner added a collective; None if the script wrote it, or it may have."""
        names, is_sum = [each for each in found.instruction.sources if each], found.kind in {REDUCE, SCATTER}
        is_marked = _IS_MARKED in found.instruction.quoted
        is_of_jax = all(map(_OF_JAX.fullmatch, names)) if names else is_sum
        if found.kind in _ONLY_WRITTEN or (is_of_jax and not is_marked):
            return None
        origin, passed = self._origin(found)
        operand, has, line = self._moved(origin, frames)
        if is_sum:
            return AddedCollective(REDUCTION, operand, has, f"the sum over {group_size or 'its'} parts")
        is_for_parts = found.kind == "all-gather" and self._is_only_sliced(found, pause)
        how = REMATERIALIZATION if is_for_parts else RESHARDING
        return AddedCollective(
            how,
            operand,
            has or _cut_by(found, group_size),
            _wanted(found, how),
            "" if names else line,
            self._consumer(found, pause) if is_marked and not _is_named_after_use(found, passed) else None,
        )

    def forget(self) -> None:
        """Drop the instructions one by one: freeing thousands at once holds the GIL for milliseconds."""
        for inside, users in zip_longest(self._inside.values(), self._users.values()):
            while inside:
                inside.popitem()
            while users:
                users.popitem()

    def _is_only_sliced(self, found: FoundCollective, pause: Callable[[], None]) -> bool:
        """Return whether each device gathers the whole and then uses its own part of it only."""
        uses = self._users_in(found.computation, pause).get(found.instruction.name, [])
        return bool(uses) and all(self._slice(each, place) is not None for each, place in uses)

    def _consumer(self, found: FoundCollective, pause: Callable[[], None]) -> Instruction | None:
        """Return the first operation that computes with the result of a collective, or takes a part of it.

        None if the result leaves the computation as well: it may have the form that the script wants there.
        """
        users, name = self._users_in(found.computation, pause), found.instruction.name
        for _ in range(MAX_SEARCH_STEPS):
            uses = users.get(name, [])
            if not uses or any(each.opcode == "tuple" for each, _ in uses):
                break
            user, place = uses[0]
            instruction = self._slice(user, place) or user
            if instruction is not user or not self._moves(user):
                return instruction if instruction.states_line else None
            name = user.name
        return None

    def _users_in(self, computation: str, pause: Callable[[], None]) -> Users:
        """Return the users of each value of a computation, if all of its instructions are stored."""
        if computation in self._cut:
            return {}
        if computation not in self._users and computation in self._inside:
            self._users[computation] = _users(self._inside[computation].values(), pause)
        return self._users.get(computation, {})

    def _slice(self, user: Instruction, place: int) -> Instruction | None:
        """Return what takes a part of this operand, if nothing else is done with it."""
        if user.opcode == "dynamic-slice":
            return user if place == 0 else None
        called = made_by(user) if user.opcode == "fusion" else []
        return self._sliced.get(called[0][0], {}).get(place) if called else None

    def _moved(self, origin: Instruction | None, frames: Frames) -> tuple[str, str, str]:
        """Return the value that a collective moves, its sharding and the line that made it, where known."""
        if origin is None:
            return "", "", ""
        if origin.opcode == "parameter":
            return shorten(legible(origin.name_stack), MAX_NAME_CHARS), self._sharded(origin), ""
        line, result = frames.line(origin), f"the result of {origin.source or origin.opcode}"
        return shorten(f"{result} ({line})" if line else result, MAX_NAME_CHARS), "", line

    def _origin(self, found: FoundCollective) -> tuple[Instruction | None, list[Instruction]]:
        """Return the argument of the program, or the operation, whose value a collective moves.

        Before it stands what the value passes on its way, the last one first.
        """
        computation, passed = found.computation, []
        instruction: Instruction | None = found.instruction
        index: int | None = None  # of an element, while `instruction` is a tuple
        for _ in range(MAX_SEARCH_STEPS):
            if instruction is None:
                break
            passed.append(instruction)
            inside = self._inside.get(computation, {})
            names = instruction.operand_names if instruction.opcode != "parameter" else []
            operand = next(iter(names), "")
            if instruction.opcode == "parameter":
                if computation not in self._callers:
                    return instruction if instruction.name_stack else None, passed
                computation, caller = self._callers[computation]
                instruction, index = self._passed(computation, caller, instruction, index), None
            elif instruction.opcode == "get-tuple-element":
                match = instruction.match(_INDEX)
                index, instruction = int(match[1]) if match else None, inside.get(operand)
            elif instruction.opcode == "tuple" and index is not None:
                instruction, index = inside.get(names[index] if index < len(names) else ""), None
            elif instruction is found.instruction or self._moves(instruction):
                instruction, index = inside.get(operand), None
            else:
                called = made_by(instruction) if instruction.opcode == "fusion" else []
                computing = self._computing.get(called[0][0]) if called else None
                origin = computing if computing is not None and computing.source else instruction
                return origin, [*passed, origin]
        return None, passed

    def _moves(self, instruction: Instruction) -> bool:
        if instruction.opcode in _MOVES or instruction.opcode.startswith(_STEPS):
            return True
        called = made_by(instruction) if instruction.opcode == "fusion" else []
        return bool(called) and called[0][0] in self._moving

    def _sharded(self, parameter: Instruction) -> str:
        """Return how an argument of the program lies over the devices."""
        place, shape = parameter.operands, shapes.read(parameter.shape)
        if not place.isdigit() or int(place) >= len(self._cuts) or not isinstance(shape, shapes.Array):
            return ""
        counts = self._cuts[int(place)][: len(shape.dimensions)]
        cut = [f"dimension {i} in {count}" for i, count in enumerate(counts) if count > 1]
        return f"cut along {' and '.join(cut)}" if cut else "whole on each device"

    def _passed(
        self, computation: str, caller: Instruction, parameter: Instruction, index: int | None
    ) -> Instruction | None:
        """Return what is passed for a parameter; for that of a loop, the element it begins with."""
        inside, names = self._inside[computation], caller.operand_names
        if caller.opcode != "while":
            place = int(parameter.operands) if parameter.operands.isdigit() else len(names)
            return inside.get(names[place]) if place < len(names) else None
        start = inside.get(caller.operand)
        if start is None or start.opcode != "tuple" or index is None:
            return None
        elements = start.operand_names
        return inside.get(elements[index]) if index < len(elements) else None


def _is_named_after_use(found: FoundCollective, passed: list[Instruction]) -> bool:
    """Return whether a marked collective has the name of the operation that it is for, not of its operand.

    The compiler of JAX 0.11.0 does so where a collective is for a reshape.
    """
    if not found.instruction.name_stack or len(passed) < 2:
        return False
    of_operand = {each.name_stack for each in passed[1:] if _IS_MARKED not in each.quoted}
    return bool(of_operand) and all(of_operand) and found.instruction.name_stack not in of_operand


def _users(listed: Iterable[Instruction], pause: Callable[[], None] = lambda: None) -> Users:
    """Return the instructions that use each value, with the place of the operand."""
    users: Users = {}
    for number, each in enumerate(listed):
        for place, name in enumerate(each.operand_names if each.opcode != "parameter" else ()):
            users.setdefault(name, []).append((each, place))
        if not number % BETWEEN_PAUSES:
            pause()
    return users


def _only_sliced(listed: list[Instruction]) -> dict[int, Instruction]:
    """Return the computed slice of each parameter, if a computation uses nothing else of it."""
    users = _users(listed)

    def sliced(name: str, depth: int) -> Instruction | None:
        found = None
        for each, place in users.get(name, []):
            if each.opcode == "dynamic-slice" and place == 0:
                found = each
            elif each.opcode in _MOVES and depth < MAX_SEARCH_STEPS:
                found = sliced(each.name, depth + 1)
            else:
                return None
            if found is None:
                return None
        return found

    parameters = [each for each in listed if each.opcode == "parameter" and each.operands.isdigit()]
    found = {int(each.operands): sliced(each.name, 0) for each in parameters}
    return {place: slice_ for place, slice_ in found.items() if slice_ is not None}


def _cut_by(found: FoundCollective, group_size: int | None) -> str:
    """Return how the operand must be cut for a gather of this kind."""
    match = found.instruction.match(_DIMENSIONS) if found.kind == "all-gather" else None
    if match is None:
        return ""
    return f"cut along dimension {match[1]}{f' in {group_size}' if group_size else ''}"


def _wanted(found: FoundCollective, how: str) -> str:
    """Return what the consumer wants instead."""
    match = found.instruction.match(_DIMENSIONS)
    if how == REMATERIALIZATION:
        return "other parts of it: each device gathers the whole for its part"
    if found.kind == PERMUTE:
        return "parts of other devices"
    if found.kind == "all-gather":
        return f"whole along dimension {match[1]}" if match else "whole"
    return "cut along another dimension"
