"""Unwinds the stack of a thread that waits in the kernel, from its program counter and stack pointer.

At first these two registers are known, and the arguments of the system call, which no frame depends on. The
others become known where functions saved them for their callers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.native.callers import frame_pointer
from jaxtop_agent.native.cursor import WORD
from jaxtop_agent.native.entries import entry_of
from jaxtop_agent.native.memory import UnwindError
from jaxtop_agent.native.objects import ElfObjects
from jaxtop_agent.native.rules import (
    AT,
    AT_EXPRESSION,
    IS,
    IS_EXPRESSION,
    RBP,
    REGISTER,
    RETURN,
    RSP,
    UNDEFINED,
    FrameRules,
    UnknownRegister,
    evaluate,
    rules_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.native.memory import MemoryArea, OwnMemory
    from jaxtop_agent.native.objects import ElfObject
    from jaxtop_agent.native.rules import RegisterRule

MOST_RAW_FRAMES = 256
# Functions save these for their callers; the others are lost at the first call.
_SAVED = frozenset({3, 6, 12, 13, 14, 15})
# The red zone: a function without calls may use so many bytes below its stack pointer.
_BELOW = 128


class RawFrame(NamedTuple):
    """An address in a running function, the object, and where the function begins (None: not known)."""

    pc: int
    found: ElfObject | None
    start: int | None
    is_innermost: bool

    @property
    def inside(self) -> int:
        """An address in the call: the address to which it returns may belong to the next function."""
        return self.pc if self.is_innermost else self.pc - 1


class RawStack(NamedTuple):
    """Frames, the innermost first, and why the stack is incomplete; empty if it is whole."""

    frames: tuple[RawFrame, ...]
    why_incomplete: str


class _Known(NamedTuple):
    """What is stored about an address."""

    found: ElfObject
    start: int
    rules: FrameRules
    returns_to: int
    is_signal: bool


class Unwinder:
    """Unwinds several threads; what it learns about an address is used again."""

    def __init__(self, memory: OwnMemory, release_gil: Callable[[], None] = lambda: None) -> None:
        self._memory = memory
        self._objects = ElfObjects(memory)
        self._known: dict[int, _Known] = {}
        self._release_gil = release_gil

    def walk(self, pc: int, sp: int) -> RawStack:
        """Return the stack; it never raises for what is in memory."""
        frames: list[RawFrame] = []
        stack = self._memory.area(sp)
        if stack is None or not stack.flags.startswith("rw"):
            return RawStack((), f"its stack pointer {sp:#x} is in no stack")
        registers, is_innermost = {RSP: sp, RETURN: pc}, True
        try:
            while len(frames) < MOST_RAW_FRAMES:
                pc = registers[RETURN]
                inside = pc if is_innermost else pc - 1
                if not self._memory.is_code(inside):
                    return RawStack(tuple(frames), f"{pc:#x} is no code")
                try:
                    known = self._at(inside)
                except UnwindError:
                    frames.append(RawFrame(pc, self._object(inside), None, is_innermost))
                    raise
                frames.append(RawFrame(pc, known.found, known.start, is_innermost))
                after = self._caller(known, registers, stack)
                if after is None:
                    return RawStack(tuple(frames), "")
                registers, is_innermost = after, known.is_signal
                self._release_gil()
        except UnwindError as error:
            return RawStack(tuple(frames), str(error))
        return RawStack(tuple(frames), f"it has more than {MOST_RAW_FRAMES} frames")

    def _object(self, pc: int) -> ElfObject | None:
        try:
            return self._objects.at(pc)
        except UnwindError:
            return None

    def _at(self, pc: int) -> _Known:
        known = self._known.get(pc)
        if known is None:
            found = self._objects.at(pc)
            entry = entry_of(self._memory, found, pc)
            common = entry.common
            known = _Known(found, entry.start, rules_at(entry, pc), common.returns_to, common.is_signal)
            self._known[pc] = known
        return known

    def _caller(self, known: _Known, registers: dict[int, int], stack: MemoryArea) -> dict[int, int] | None:
        """Return the registers of the caller; None if there is no caller."""
        rules = known.rules
        if rules.registers.get(known.returns_to, (AT, 0))[0] == UNDEFINED:
            return None
        try:
            frame = self._frame(rules, registers)
        except UnknownRegister as error:
            # The register still has the value that it had when the function saved its frame in it.
            if error.register != RBP or rules.expression or rules.register != RBP:
                raise
            found = frame_pointer(self._memory, stack, registers[RSP], known.start, rules)
            registers = {**registers, RBP: found}
            frame = self._frame(rules, registers)
        if not registers[RSP] < frame <= stack.end and not known.is_signal:
            raise UnwindError(f"a frame at {frame:#x} is not in the stack")
        after = {number: value for number, value in registers.items() if number in _SAVED}
        after[RSP] = frame
        for register, rule in rules.registers.items():
            value = self._value(rule, frame, registers, stack)
            if value is None:
                after.pop(register, None)
            else:
                after[register] = value
        returns = after.pop(known.returns_to, None)
        if returns is None:
            raise UnwindError("a frame without a return address")
        if not returns:
            return None
        after[RETURN] = returns
        return after

    def _frame(self, rules: FrameRules, registers: dict[int, int]) -> int:
        if rules.expression:
            return evaluate(rules.expression, registers, self._memory.word)
        if rules.register not in registers:
            raise UnknownRegister(rules.register)
        return (registers[rules.register] + rules.offset) & WORD

    def _value(
        self, rule: RegisterRule, frame: int, registers: dict[int, int], stack: MemoryArea
    ) -> int | None:
        kind, value = rule
        if kind == UNDEFINED:
            return None
        try:
            if isinstance(value, bytes):
                at = evaluate(value, registers, self._memory.word, frame)
                return self._on_stack(at, stack) if kind == AT_EXPRESSION else at
            if kind == AT:
                return self._on_stack(frame + value, stack)
        except UnknownRegister:
            return None
        if kind == REGISTER:
            return registers.get(value)
        assert kind in {IS, IS_EXPRESSION}
        return (frame + value) & WORD

    def _on_stack(self, address: int, stack: MemoryArea) -> int:
        if not stack.start - _BELOW <= address <= stack.end - 8:
            raise UnwindError(f"a saved register at {address:#x} is not in the stack")
        return self._memory.word(address)
