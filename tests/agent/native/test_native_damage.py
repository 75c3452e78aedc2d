"""Frame pointers that nobody saved, and memory whose contents make no sense."""

from __future__ import annotations

import random
import socket
import struct
import threading

import pytest

from jaxtop_agent.native import sampling, tasks, telling
from jaxtop_agent.native.callers import frame_pointer
from jaxtop_agent.native.memory import MemoryArea, OwnMemory, UnwindError
from jaxtop_agent.native.rules import AT, RBP, RBX, RETURN, RSP, FrameRules
from jaxtop_agent.native.unwinding import Unwinder
from tests.cases import thorough
from tests.support import eventually

CODE, OTHER, TABLE, STACK, SIZE = 0x10000, 0x20000, 0x30000, 0x7000_0000, 0x4000
FRAME = FrameRules(RBP, 16, b"", {RETURN: (AT, -8), RBP: (AT, -16), RBX: (AT, -24)})
# push rbp; mov rbp, rsp; push rbx; sub rsp, 0x28
BEGINNING = b"\x55\x48\x89\xe5\x53\x48\x83\xec\x28"


class MadeMemory(OwnMemory):
    """Code, a table of addresses and a stack, as a test needs them."""

    def __init__(self):
        self._bytes = {start: bytearray(SIZE) for start in (CODE, OTHER, TABLE, STACK)}
        flags = {CODE: "r-xp", OTHER: "r-xp", TABLE: "r--p", STACK: "rw-p"}
        self._areas = [MemoryArea(start, start + SIZE, flags[start], 0, "") for start in sorted(self._bytes)]
        self._starts = [each.start for each in self._areas]
        self._pages = {}

    @property
    def stack(self):
        return self._areas[-1]

    def write(self, address, data):
        start = max(each for each in self._bytes if each <= address)
        self._bytes[start][address - start : address - start + len(data)] = data

    def write_word(self, address, value):
        self.write(address, struct.pack("<Q", value))

    def read(self, address, size):
        area = self.area(address)
        if area is None or address + size > area.end:
            raise UnwindError(f"no readable memory at {address:#x}")
        return bytes(self._bytes[area.start][address - area.start :][:size])


def call(target, returns):
    return b"\xe8" + struct.pack("<i", target - returns)


def jump_through(slot, at):
    return b"\xff\x25" + struct.pack("<i", slot - at - 6)


def made(before, *, returns=OTHER + 0x105, at=STACK + 0x200, code=b"\x90" * 16):
    """A frame at `at`, made by the instruction `before` its return address; below it a stale one."""
    memory = MadeMemory()
    memory.write(CODE, code)
    memory.write(returns - len(before), before)
    memory.write_word(at + 8, returns)
    stale = OTHER + 0x905
    memory.write(stale - 5, call(OTHER, stale))  # a call of another function
    memory.write_word(STACK + 0x108, stale)
    memory.write_word(STACK + 0x118, 0x1234)
    return memory


@pytest.mark.parametrize(
    "before",
    [
        call(CODE, OTHER + 0x105),
        call(OTHER + 0x800, OTHER + 0x105),  # an entry of the linkage table
        call(OTHER + 0x840, OTHER + 0x105),  # the same with a landing mark
        call(OTHER + 0x880, OTHER + 0x105),  # a jump
        b"\xff\x15" + struct.pack("<i", TABLE - OTHER - 0x105),
    ],
)
def test_a_frame_is_found_by_the_call_that_made_it(before):
    memory = made(before)
    memory.write_word(TABLE, CODE)
    memory.write(OTHER + 0x800, jump_through(TABLE, OTHER + 0x800))
    memory.write(OTHER + 0x840, b"\xf3\x0f\x1e\xfa" + jump_through(TABLE, OTHER + 0x844))
    memory.write(OTHER + 0x880, b"\xe9" + struct.pack("<i", CODE - OTHER - 0x885))
    assert frame_pointer(memory, memory.stack, STACK + 0x80, CODE, FRAME) == STACK + 0x200


@pytest.mark.parametrize(
    "before", [b"\xff\xd0", b"\x41\xff\xd4", b"\xff\x50\x10", b"\xff\x90\x00\x01\x00\x00"]
)
def test_a_frame_made_by_a_call_of_a_pointer_is_found_by_the_first_instructions(before):
    memory = made(before, code=BEGINNING + b"\x90" * 48)
    sp = STACK + 0x200 - 8 - 0x28
    assert frame_pointer(memory, memory.stack, sp, CODE, FRAME) == STACK + 0x200


@pytest.mark.parametrize(
    ("before", "code", "sp"),
    [
        (b"\xff\xd0", b"\x90" * 64, STACK + 0x1D0),  # nothing is known about the function
        (b"\xff\xd0", BEGINNING + b"\x90" * 48, STACK + 0x1C0),  # it has taken more than it said
        (b"\x90\x90\x90", BEGINNING + b"\x90" * 48, STACK + 0x1D0),  # there was no call
        (b"\xff\xd0", b"\x55\x48\x89\xe5\x48\x83\xec\x28" + b"\x90" * 48, STACK + 0x1D8),  # rbx is missing
        (call(CODE + 0x40, OTHER + 0x105), b"\x90" * 64, STACK + 0x80),  # a call of another function
    ],
)
def test_a_frame_that_is_not_certain_is_an_error_in_words(before, code, sp):
    memory = made(before, code=code)
    with pytest.raises(UnwindError, match="rbp is unknown"):
        frame_pointer(memory, memory.stack, sp, CODE, FRAME)


def test_other_frames_than_usual_are_not_guessed():
    memory = made(call(CODE, OTHER + 0x105))
    for rules in (
        FRAME._replace(offset=32),
        FRAME._replace(register=RSP),
        FRAME._replace(expression=b"\x31"),
    ):
        with pytest.raises(UnwindError, match="rbp is unknown"):
            frame_pointer(memory, memory.stack, STACK + 0x80, CODE, rules)


class DamagedMemory(OwnMemory):
    """The memory of this process, of which some pages have wrong bytes."""

    def __init__(self, dice):
        super().__init__()
        self._dice = dice

    def _page(self, start):
        is_new = start not in self._pages
        page = super()._page(start)
        if is_new and self._dice.random() < 0.3:
            data = bytearray(page)
            for _ in range(self._dice.randrange(1, 400)):
                data[self._dice.randrange(len(data))] = self._dice.randrange(256)
            page = self._pages[start] = bytes(data)
        return page


@pytest.fixture
def waiter():
    """The native id of a thread that waits for a socket."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=ours.recv, args=(1,))
    thread.start()
    eventually(lambda: tasks.waiting(thread.native_id).text.startswith("45 "), every=0.01)
    yield thread.native_id
    theirs.send(b"x")
    thread.join()
    ours.close()
    theirs.close()


@pytest.mark.parametrize("seed", [*range(3), *map(thorough, range(3, 40))])
def test_damaged_tables_headers_and_stacks_end_in_words(waiter, seed):
    dice = random.Random(seed)
    waiting = tasks.waiting(waiter)
    for _ in range(60):
        memory = DamagedMemory(dice)
        try:
            raw = Unwinder(memory).walk(waiting.pc, waiting.sp)
        finally:
            memory.close()
        assert isinstance(raw.why_incomplete, str)


def test_a_thread_that_moves_while_it_is_read_is_left_out(waiter, monkeypatch):
    monkeypatch.setattr(telling, "communicates", lambda _: True)
    assert waiter in [each.task for each in sampling.sample((), (waiter,))]
    before, looks = tasks.waiting, []

    def moves(task):
        looks.append(task)
        found = before(task)
        return found._replace(text=f"{found.text} {looks.count(task)}") if task == waiter else found

    monkeypatch.setattr(tasks, "waiting", moves)
    assert waiter not in [each.task for each in sampling.sample((), (waiter,))]
