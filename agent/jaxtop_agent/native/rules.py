"""Runs the instructions of an unwind entry: where the frame is, and where its caller's registers are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.native.cursor import WORD, Cursor
from jaxtop_agent.native.memory import UnwindError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jaxtop_agent.native.entries import UnwindEntry

# Registers of x86-64 by their numbers in these tables.
RBX, RBP, RSP, RETURN = 3, 6, 7, 16
MOST_INSTRUCTIONS, MOST_REMEMBERED, MOST_REGISTERS = 4096, 64, 17
MOST_OPERATIONS, MOST_OPERANDS = 256, 64

# How a register of the caller is found: at an offset from the frame, as the frame plus an offset, in another
# register, at the address of an expression, as its value; or not at all.
AT, IS, REGISTER, AT_EXPRESSION, IS_EXPRESSION, UNDEFINED = range(6)

RegisterRule = tuple[int, int | bytes]


class FrameRules(NamedTuple):
    """The frame as a register plus an offset, or as an expression, and rules for registers of the caller."""

    register: int
    offset: int
    expression: bytes
    registers: Mapping[int, RegisterRule]


class _Machine:
    """The state while instructions run."""

    def __init__(self, entry: UnwindEntry, pc: int) -> None:
        self._entry, self._pc = entry, pc
        self._location = entry.start
        self._frame: tuple[int, int, bytes] = (RSP, 8, b"")
        self._rules: dict[int, RegisterRule] = {}
        self._first: dict[int, RegisterRule] = {}
        self._remembered: list[tuple[tuple[int, int, bytes], dict[int, RegisterRule]]] = []

    def result(self) -> FrameRules:
        common = self._entry.common
        self._run(Cursor(common.instructions))
        self._first = dict(self._rules)
        self._run(Cursor(self._entry.instructions))
        return FrameRules(*self._frame, self._rules)

    def _run(self, cursor: Cursor) -> None:
        for _ in range(MOST_INSTRUCTIONS):
            if cursor.is_at_end or not self._step(cursor):
                return
        raise UnwindError("an unwind entry with too many instructions")

    def _step(self, cursor: Cursor) -> bool:
        """Run one instruction; return False once the rest is about later addresses."""
        code = cursor.byte()
        high, low = code & 0xC0, code & 0x3F
        if high == 0x40:
            return self._advance(low)
        if high == 0x80:
            self._set(low, (AT, cursor.unsigned() * self._entry.common.data_factor))
        elif high == 0xC0:
            self._restore(low)
        elif code in _ADVANCES:
            return self._advance(cursor.number(_ADVANCES[code]))
        elif code == 0x01:
            return self._go_to(cursor.encoded(self._entry.common.encoding))
        elif code in _OTHERS:
            _OTHERS[code](self, cursor)
        else:
            raise UnwindError(f"the unknown instruction {code:#x} in an unwind entry")
        return True

    def _advance(self, steps: int) -> bool:
        return self._go_to(self._location + steps * self._entry.common.code_factor)

    def _go_to(self, location: int) -> bool:
        self._location = location
        return location <= self._pc

    def _set(self, register: int, rule: RegisterRule) -> None:
        if 0 <= register < MOST_REGISTERS:  # others are vectors, whose values no frame depends on
            self._rules[register] = rule

    def _restore(self, register: int) -> None:
        if register in self._first:
            self._rules[register] = self._first[register]
        else:
            self._rules.pop(register, None)

    def _remember(self, _cursor: Cursor) -> None:
        if len(self._remembered) >= MOST_REMEMBERED:
            raise UnwindError("an unwind entry that remembers too much")
        self._remembered.append((self._frame, dict(self._rules)))

    def _recall(self, _cursor: Cursor) -> None:
        if not self._remembered:
            raise UnwindError("an unwind entry that recalls what it did not remember")
        self._frame, self._rules = self._remembered.pop()

    def _factored(self, kind: int, cursor: Cursor, *, is_signed: bool) -> None:
        register = cursor.unsigned()
        offset = cursor.signed() if is_signed else cursor.unsigned()
        self._set(register, (kind, offset * self._entry.common.data_factor))

    def _negative(self, cursor: Cursor) -> None:
        register = cursor.unsigned()
        self._set(register, (AT, -cursor.unsigned() * self._entry.common.data_factor))

    def _by_expression(self, kind: int, cursor: Cursor) -> None:
        register = cursor.unsigned()
        self._set(register, (kind, cursor.block(cursor.unsigned())))

    def _frame_is(self, cursor: Cursor, *, is_signed: bool) -> None:
        register = cursor.unsigned()
        offset = cursor.signed() * self._entry.common.data_factor if is_signed else cursor.unsigned()
        self._frame = register, offset, b""

    def _frame_register(self, cursor: Cursor) -> None:
        self._frame = cursor.unsigned(), self._frame[1], b""

    def _frame_offset(self, cursor: Cursor, *, is_signed: bool) -> None:
        offset = cursor.signed() * self._entry.common.data_factor if is_signed else cursor.unsigned()
        self._frame = self._frame[0], offset, b""

    def _frame_expression(self, cursor: Cursor) -> None:
        self._frame = self._frame[0], self._frame[1], cursor.block(cursor.unsigned())

    def _in_register(self, cursor: Cursor) -> None:
        register = cursor.unsigned()
        self._set(register, (REGISTER, cursor.unsigned()))


_ADVANCES = {0x02: "<B", 0x03: "<H", 0x04: "<I"}
_OTHERS: dict[int, Callable[[_Machine, Cursor], object]] = {
    0x00: lambda _machine, _cursor: None,
    0x05: lambda machine, cursor: machine._factored(AT, cursor, is_signed=False),
    0x06: lambda machine, cursor: machine._restore(cursor.unsigned()),
    0x07: lambda machine, cursor: machine._set(cursor.unsigned(), (UNDEFINED, 0)),
    0x08: lambda machine, cursor: machine._rules.pop(cursor.unsigned(), None),
    0x09: _Machine._in_register,
    0x0A: _Machine._remember,
    0x0B: _Machine._recall,
    0x0C: lambda machine, cursor: machine._frame_is(cursor, is_signed=False),
    0x0D: _Machine._frame_register,
    0x0E: lambda machine, cursor: machine._frame_offset(cursor, is_signed=False),
    0x0F: _Machine._frame_expression,
    0x10: lambda machine, cursor: machine._by_expression(AT_EXPRESSION, cursor),
    0x11: lambda machine, cursor: machine._factored(AT, cursor, is_signed=True),
    0x12: lambda machine, cursor: machine._frame_is(cursor, is_signed=True),
    0x13: lambda machine, cursor: machine._frame_offset(cursor, is_signed=True),
    0x14: lambda machine, cursor: machine._factored(IS, cursor, is_signed=False),
    0x15: lambda machine, cursor: machine._factored(IS, cursor, is_signed=True),
    0x16: lambda machine, cursor: machine._by_expression(IS_EXPRESSION, cursor),
    0x2E: lambda _machine, cursor: cursor.unsigned(),  # the size of arguments
    0x2F: _Machine._negative,
}


def rules_at(entry: UnwindEntry, pc: int) -> FrameRules:
    """Return the rules that hold at an address of an entry."""
    return _Machine(entry, pc).result()


class UnknownRegister(UnwindError):
    """A value depends on a register that is not known."""

    def __init__(self, register: int) -> None:
        super().__init__(f"register {NAMES.get(register, register)} is unknown")
        self.register = register


NAMES = {
    0: "rax", 1: "rdx", 2: "rcx", 3: "rbx", 4: "rsi", 5: "rdi", 6: "rbp", 7: "rsp",
    **{number: f"r{number}" for number in range(8, 16)}, 16: "rip",
}  # fmt: skip


def evaluate(
    expression: bytes,
    registers: Mapping[int, int],
    word: Callable[[int], int],
    first: int | None = None,
) -> int:
    """Return the value of an expression of the tables; `first` lies on its stack at the beginning."""
    cursor = Cursor(expression)
    stack = [] if first is None else [first]
    for _ in range(MOST_OPERATIONS):
        if cursor.is_at_end:
            if not stack:
                raise UnwindError("an expression without a value")
            return stack[-1]
        _operate(cursor, stack, registers, word)
        if len(stack) > MOST_OPERANDS:
            raise UnwindError("an expression that needs too much room")
    raise UnwindError("an expression with too many operations")


def _operate(
    cursor: Cursor, stack: list[int], registers: Mapping[int, int], word: Callable[[int], int]
) -> None:
    code = cursor.byte()
    if 0x30 <= code <= 0x4F:
        stack.append(code - 0x30)
    elif 0x70 <= code <= 0x8F:
        stack.append((_value(registers, code - 0x70) + cursor.signed()) & WORD)
    elif code in _CONSTANTS:
        stack.append(cursor.number(_CONSTANTS[code]) & WORD)
    elif code in {0x10, 0x11}:
        stack.append((cursor.unsigned() if code == 0x10 else cursor.signed()) & WORD)
    elif code == 0x92:
        register = cursor.unsigned()
        stack.append((_value(registers, register) + cursor.signed()) & WORD)
    elif code == 0x06:
        stack.append(word(_popped(stack)))
    elif code == 0x12:
        stack.append(stack[-1] if stack else _popped(stack))
    elif code == 0x13:
        _popped(stack)
    elif code == 0x23:
        stack.append((_popped(stack) + cursor.unsigned()) & WORD)
    elif code in _PAIRS:
        right, left = _popped(stack), _popped(stack)
        stack.append(_PAIRS[code](left, right) & WORD)
    elif code == 0x1F:
        stack.append(-_popped(stack) & WORD)
    elif code != 0x96:
        raise UnwindError(f"the unknown operation {code:#x} in an unwind entry")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


_CONSTANTS = {0x03: "<Q", 0x08: "<B", 0x09: "<b", 0x0A: "<H", 0x0B: "<h", 0x0C: "<I", 0x0D: "<i",
              0x0E: "<Q", 0x0F: "<q"}  # fmt: skip
_PAIRS: dict[int, Callable[[int, int], int]] = {
    0x1A: lambda left, right: left & right,
    0x1C: lambda left, right: left - right,
    0x1E: lambda left, right: left * right,
    0x21: lambda left, right: left | right,
    0x22: lambda left, right: left + right,
    0x24: lambda left, right: left << min(right, 64),
    0x25: lambda left, right: left >> min(right, 64),
    0x26: lambda left, right: _signed(left) >> min(right, 64),
    0x27: lambda left, right: left ^ right,
    0x29: lambda left, right: left == right,
    0x2A: lambda left, right: _signed(left) >= _signed(right),
    0x2B: lambda left, right: _signed(left) > _signed(right),
    0x2C: lambda left, right: _signed(left) <= _signed(right),
    0x2D: lambda left, right: _signed(left) < _signed(right),
    0x2E: lambda left, right: left != right,
}


def _popped(stack: list[int]) -> int:
    if not stack:
        raise UnwindError("an expression that takes more than it has")
    return stack.pop()


def _value(registers: Mapping[int, int], register: int) -> int:
    if register not in registers:
        raise UnknownRegister(register)
    return registers[register]
