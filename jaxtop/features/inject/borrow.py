"""Borrows a thread of a process by ptrace: it makes a few short calls, and goes on as if nothing had been.

It is run as a process of its own, so that a Ctrl-C does not end it in the middle of a call. It reads the plan
from its input, and imports nothing of jaxtop.
"""

from __future__ import annotations

import base64
import ctypes
import json
import mmap
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

# Requests of ptrace, and what it reports.
DETACH, TRACED_CALL, GET_REGISTERS, SET_REGISTERS = 17, 24, 12, 13
GET_SET, SET_SET, SEIZE, INTERRUPT, GET_MASK, SET_MASK = 0x4204, 0x4205, 0x4206, 0x4207, 0x420A, 0x420B
MARK_CALLS, WAIT_FOR_THREADS, STOP_EVENT = 1, 0x40000000, 128
CALL_STOP = signal.SIGTRAP | 0x80
# All floating point and vector registers, however many a processor has.
VECTORS, MAX_VECTORS = 0x202, 1 << 16
MMAP, MPROTECT, GETPID, RESTART, FUTEX = 9, 10, 39, 219, 202
# A system call that a stop has interrupted ends with one of these, and is then made again.
AGAIN, CONTINUED = {-512, -513, -514}, -516
WAIT_BITSET, COMMAND = 9, 0x7F
TIMEOUT = 4  # where a futex call has its timeout, behind the number of the call
# poll, select, nanosleep, recvfrom, recvmsg, accept, wait4, epoll_wait, clock_nanosleep, waitid, accept4:
# nothing in the C library calls these while it holds a lock of its own.
WAITS = {7, 23, 35, 43, 45, 47, 61, 230, 232, 247, 288}
PAGE = mmap.PAGESIZE
# call rax; mov rdi, rax; mov eax, GETPID; syscall: the last one tells that the call has returned.
CALL = bytes.fromhex("ffd0 4889c7 b827000000 0f05")
SYSCALL = b"\x0f\x05"
# Where arguments of system calls and of functions are.
IN_CALLS, IN_FUNCTIONS = ("rdi", "rsi", "rdx", "r10", "r8", "r9"), ("rdi", "rsi", "rdx", "rcx")
BELOW_STACK = 256  # a function may use 128 bytes below its stack
STOPS_WITHIN, REST = 1.0, 0.02
WORD = 1 << 64

_ptrace = ctypes.CDLL(None, use_errno=True).ptrace
_ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_ptrace.restype = ctypes.c_long


REGISTERS = (
    "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base"
    " ds es fs gs"
)


class Registers(ctypes.Structure):
    """user_regs_struct of x86-64."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in REGISTERS.split())


class Piece(ctypes.Structure):
    """iovec: where a set of registers is."""

    _fields_ = (("at", ctypes.c_void_p), ("size", ctypes.c_size_t))


class NotBorrowed(Exception):
    """Why no thread was started."""


def ptrace(request: int, tid: int, address: int = 0, data: int = 0) -> None:
    if _ptrace(request, tid, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class BorrowedThread:
    """A stopped thread, with all its registers as they were."""

    def __init__(self, pid: int, tid: int) -> None:
        self.pid, self.tid = pid, tid
        ptrace(SEIZE, tid, 0, MARK_CALLS)
        ptrace(INTERRUPT, tid)
        self._wait_for_interruption()
        self._saved = self._registers()
        self._vectors = ctypes.create_string_buffer(MAX_VECTORS)
        self._piece = Piece(ctypes.addressof(self._vectors), MAX_VECTORS)
        ptrace(GET_SET, tid, VECTORS, ctypes.addressof(self._piece))  # it sets the size, too
        self._mask = ctypes.c_uint64()
        ptrace(GET_MASK, tid, 8, ctypes.addressof(self._mask))

    def _wait_for_interruption(self) -> None:
        end = time.monotonic() + STOPS_WITHIN
        while True:
            found, status = os.waitpid(self.tid, WAIT_FOR_THREADS | os.WNOHANG)
            if not found:
                if time.monotonic() > end:
                    raise NotBorrowed("a thread of it does not stop")
                time.sleep(0.001)
            elif not os.WIFSTOPPED(status):
                raise ProcessLookupError
            elif status >> 16 == STOP_EVENT:
                return
            else:  # a signal came first
                ptrace(TRACED_CALL, self.tid, 0, os.WSTOPSIG(status))

    def _registers(self) -> Registers:
        registers = Registers()
        ptrace(GET_REGISTERS, self.tid, 0, ctypes.addressof(registers))
        return registers

    def _go_on(self) -> Registers:
        """Run until a system call begins or ends; return the registers."""
        while True:
            ptrace(TRACED_CALL, self.tid)
            _, status = os.waitpid(self.tid, WAIT_FOR_THREADS)
            if not os.WIFSTOPPED(status):
                raise ProcessLookupError
            if os.WSTOPSIG(status) == CALL_STOP:
                return self._registers()
            if not status >> 16:  # all others are blocked
                raise NotBorrowed(f"a call in it failed with {signal.Signals(os.WSTOPSIG(status)).name}")

    def _start(self, at: int, **words: int) -> None:
        registers = Registers.from_buffer_copy(self._saved)
        registers.rip, registers.orig_rax = at, WORD - 1  # no system call to make again
        registers.rsp = (registers.rsp - BELOW_STACK) & ~15
        for name, value in words.items():
            setattr(registers, name, value % WORD)
        ptrace(SET_REGISTERS, self.tid, 0, ctypes.addressof(registers))

    def block_signals(self) -> None:
        """Let no handler of the script run on this thread, nor on the one that it starts."""
        everything = ctypes.c_uint64(WORD - 1)
        ptrace(SET_MASK, self.tid, 8, ctypes.addressof(everything))

    def system_call(self, at: int, number: int, *words: int) -> int:
        """Make a system call by the instruction at this address; return the result, negative for an error."""
        self._start(at, rax=number, **dict(zip(IN_CALLS, words, strict=False)))
        self._go_on()
        return signed(self._go_on().rax)

    def call(self, at: int, function: int, *words: int) -> int:
        """Call a function through the code CALL at this address; return the result."""
        self._start(at, rax=function, **dict(zip(IN_FUNCTIONS, words, strict=False)))
        while (registers := self._go_on()).rip != at + len(CALL) or registers.orig_rax != GETPID:
            pass  # a system call of the function
        self._go_on()
        return int(registers.rdi)

    def leave(self) -> None:
        """Give all registers back and let the thread go on, with the system call in which it was."""
        registers = Registers.from_buffer_copy(self._saved)
        if signed(registers.orig_rax) >= 0 and signed(registers.rax) in (*AGAIN, CONTINUED):
            is_continued = signed(registers.rax) == CONTINUED
            registers.rax = RESTART if is_continued else registers.orig_rax
            registers.rip -= len(SYSCALL)
        registers.orig_rax = WORD - 1
        ptrace(SET_SET, self.tid, VECTORS, ctypes.addressof(self._piece))
        ptrace(SET_REGISTERS, self.tid, 0, ctypes.addressof(registers))
        ptrace(SET_MASK, self.tid, 8, ctypes.addressof(self._mask))
        ptrace(DETACH, self.tid)


def signed(value: int) -> int:
    return value - WORD if value >> 63 else value


def standing(pid: int, tid: int) -> list[int]:
    """Return the number and arguments of its system call, or -1, then sp and pc; nothing while it runs."""
    with open(f"/proc/{pid}/task/{tid}/syscall", encoding="ascii") as file:
        words = file.read().split()
    return [] if words == ["running"] else [int(word, 0) for word in words]


def rank(plan: dict[str, Any], tid: int) -> int | None:
    """How well a thread can be borrowed, 0 is best; None if it may hold a lock that the calls need.

    The calls need the C library's locks of memory and threads. A thread that waits for a condition without a
    timeout holds none, nor does one in Python's own machine code, nor one that waits for an event.
    """
    try:
        where = standing(plan["pid"], tid)
    except (OSError, ValueError):
        return None
    if not where:
        return 2  # seen once it is stopped
    call = where[0]
    if call == FUTEX:
        is_main = tid == plan["pid"]
        return int(is_main) if where[2] & COMMAND == WAIT_BITSET and not where[TIMEOUT] else None
    if call == -1:
        return 2 if any(start <= where[-1] < end for start, end in plan["code"]) else None
    return 3 if call in WAITS else None


def borrow(plan: dict[str, Any]) -> BorrowedThread:
    """Stop the best thread that can be borrowed."""
    end = time.monotonic() + plan["attaches_within"]
    while time.monotonic() < end:
        tids = [int(each) for each in os.listdir(f"/proc/{plan['pid']}/task")]
        ranked = [(ranks, tid) for tid in tids if (ranks := rank(plan, tid)) is not None]
        for _, tid in sorted(ranked):
            try:
                thread = BorrowedThread(plan["pid"], tid)
            except ProcessLookupError:  # the thread has ended
                continue
            if rank(plan, tid) is not None:
                return thread
            thread.leave()
        time.sleep(REST)
    raise NotBorrowed("no thread of it was in a place from which another can be started")


def start_thread(thread: BorrowedThread, plan: dict[str, Any]) -> None:
    """Put the function and its data into new memory, and start it on a thread of its own."""
    addresses = plan["addresses"]
    code, data = base64.b64decode(plan["code_bytes"]), base64.b64decode(plan["data"])
    memory = os.open(f"/proc/{thread.pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        found = os.pread(memory, 64, addresses["getpid"]).find(SYSCALL)
        if found < 0:
            raise NotBorrowed("its C library makes system calls in an unknown way")
        at = addresses["getpid"] + found
        thread.block_signals()
        size = PAGE + -(-len(data) // PAGE) * PAGE
        rights = mmap.PROT_READ | mmap.PROT_WRITE
        page = thread.system_call(at, MMAP, 0, size, rights, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if page < 0:
            raise NotBorrowed("it has no memory left")
        os.pwrite(memory, code + CALL, page)
        os.pwrite(memory, data, page + PAGE)
        if thread.system_call(at, MPROTECT, page, PAGE, mmap.PROT_READ | mmap.PROT_EXEC):
            raise NotBorrowed("its security policy (SELinux) allows no new machine code")
        caller = page + len(code)
        errno_at = thread.call(caller, addresses["__errno_location"])
        errno = os.pread(memory, 4, errno_at)
        new = page + PAGE + len(data) - 8
        failed = thread.call(caller, addresses["pthread_create"], new, 0, page, page + PAGE) & 0xFFFFFFFF
        os.pwrite(memory, errno, errno_at)
    finally:
        os.close(memory)
    if failed:
        raise NotBorrowed(f"it can start no thread (error {failed})")


def main() -> None:
    plan = json.load(sys.stdin)
    # Ended in the middle of a call, it would leave the thread there.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    result: dict[str, object] = {}
    try:
        thread = borrow(plan)
        stopped = time.monotonic()
        try:
            start_thread(thread, plan)
        finally:
            with suppress(ProcessLookupError):
                thread.leave()
            result["held_s"] = time.monotonic() - stopped
    except NotBorrowed as error:
        result["why"] = str(error)
    except (ProcessLookupError, FileNotFoundError):
        result["why"] = "it has ended"
    except OSError as error:
        result["why"] = f"it cannot be traced: {error.strerror}"
    print(json.dumps(result))


if __name__ == "__main__":
    main()
