"""Finds a frame pointer that no inner function has saved, and only if it is certain.

A function that uses rbp as its frame pointer has pushed its caller's below the return address. Two things
show where that is: a return address that follows a call to the beginning of this very function; or the
instructions at the beginning of the function, which say how much they took from the stack, and a return
address that follows a call exactly there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop_agent.native.memory import UnwindError
from jaxtop_agent.native.rules import AT, RBP

if TYPE_CHECKING:
    from jaxtop_agent.native.memory import MemoryArea, OwnMemory
    from jaxtop_agent.native.rules import FrameRules

# The most bytes that are searched: few functions have larger frames.
MOST_OF_FRAME = 16 << 10
# The bytes between the frame pointer and the end of a frame: the saved one, and the return address.
_ABOVE = 16
_CALL, _JUMP = 0xE8, 0xE9
_THROUGH_TABLE, _JUMP_THROUGH_TABLE = b"\xff\x15", b"\xff\x25"
# What may stand before the jump of an entry of the linkage table: a landing mark, and a prefix.
_MARK, _PREFIX = b"\xf3\x0f\x1e\xfa", b"\xf2"
# The usual first instructions of a function with a frame pointer.
_BEGINNINGS = (b"\x55\x48\x89\xe5", b"\x55\x48\x8b\xec")
_PUSHES = (b"\x41\x57", b"\x41\x56", b"\x41\x55", b"\x41\x54", b"\x53", b"\x50")
_SUBTRACT, _SUBTRACT_BYTE = b"\x48\x81\xec", b"\x48\x83\xec"
MOST_OF_BEGINNING = 48


def frame_pointer(memory: OwnMemory, stack: MemoryArea, sp: int, start: int, rules: FrameRules) -> int:
    """Return the frame pointer of the function that begins at `start`; raise if it is not certain."""
    if rules.register == RBP and rules.offset == _ABOVE and not rules.expression:
        found = _by_call(memory, stack, sp, start)
        found = _by_beginning(memory, stack, sp, start, rules) if found is None else found
        if found is not None:
            return found
    raise UnwindError("register rbp is unknown: no function that was called has saved it")


def _by_call(memory: OwnMemory, stack: MemoryArea, sp: int, start: int) -> int | None:
    """Return it by the call that made the frame."""
    for at in range((sp + 15) & ~15, min(sp + MOST_OF_FRAME, stack.end - _ABOVE), 16):
        returns = memory.word(at + 8)
        if _may_follow_call(memory, returns) and _calls(memory, returns, start):
            return at
    return None


def _by_beginning(memory: OwnMemory, stack: MemoryArea, sp: int, start: int, rules: FrameRules) -> int | None:
    """Return it by what the first instructions of the function took from the stack."""
    code = memory.read(start, MOST_OF_BEGINNING).removeprefix(_MARK)
    if not code.startswith(_BEGINNINGS):
        return None
    code, size = code[4:], 0
    while pushed := next((each for each in _PUSHES if code.startswith(each)), None):
        code, size = code[len(pushed) :], size + 8
    saved = sum(kind == AT and register not in {RBP, 16} for register, (kind, _) in rules.registers.items())
    if size < 8 * saved:  # other instructions stand between the pushes
        return None
    if code.startswith(_SUBTRACT):
        size += int.from_bytes(code[3:7], "little")
    elif code.startswith(_SUBTRACT_BYTE):
        size += code[3]
    at = sp + size
    if at > stack.end - _ABOVE or at % 16:
        return None
    returns = memory.word(at + 8)
    return at if _may_follow_call(memory, returns) and _follows_call(memory, returns) else None


def _may_follow_call(memory: OwnMemory, returns: int) -> bool:
    return memory.is_code(returns) and memory.is_code(returns - 7)


def _follows_call(memory: OwnMemory, returns: int) -> bool:
    """Return whether the instruction before this address may be a call, of any form."""
    before = memory.read(returns - 7, 7)
    if before[2] == _CALL:
        return True
    # 0xff with the operation 2: two, three, four, six or seven bytes long.
    return any(before[-size] == 0xFF and before[-size + 1] >> 3 & 7 == 2 for size in (2, 3, 4, 6, 7))


def _calls(memory: OwnMemory, returns: int, start: int) -> bool:
    """Return whether the call before this address is a call of that function."""
    before = memory.read(returns - 6, 6)
    try:
        if before[1] == _CALL:
            return _leads_to(memory, returns + _signed(before[2:]), start)
        return before[:2] == _THROUGH_TABLE and memory.word(returns + _signed(before[2:])) == start
    except UnwindError:  # what looked like a call is none
        return False


def _leads_to(memory: OwnMemory, target: int, start: int) -> bool:
    """Return whether a target is that function, or an entry of the linkage table that jumps there."""
    if target == start:
        return True
    if not memory.is_code(target):
        return False
    code, at = memory.read(target, 16), target
    for skipped in (_MARK, _PREFIX):
        if code.startswith(skipped):
            code, at = code[len(skipped) :], at + len(skipped)
    if code[0] == _JUMP:
        return at + 5 + _signed(code[1:5]) == start
    return code.startswith(_JUMP_THROUGH_TABLE) and memory.word(at + 6 + _signed(code[2:6])) == start


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)
