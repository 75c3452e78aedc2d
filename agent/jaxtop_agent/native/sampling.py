"""Reads the native stacks of the threads that wait: the main thread, and those that communicate."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.base.names import legible, shorten
from jaxtop_agent.core.waiting import GIL_RELEASE_S, SLICE_S
from jaxtop_agent.native import calls, names, tasks, telling
from jaxtop_agent.native.memory import OwnMemory, UnwindError
from jaxtop_agent.native.symbols import CodePlace, function_names
from jaxtop_agent.native.unwinding import Unwinder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from jaxtop_agent.native.objects import ElfObject
    from jaxtop_agent.native.unwinding import RawFrame, RawStack

# The threads that are sent, the main thread among them, and the frames of each.
MOST_THREADS, MOST_FRAMES = 4, 40
# Threads whose stacks are compared to find those.
MOST_WALKED = 128
# One sampling uses at most this CPU time, and takes at most this long.
CPU_S, WALL_S = 0.5, 5.0
LONGEST_LIBRARY, LONGEST_REASON = 60, 120
ELSEWHERE = "native stacks are read on Linux with x86-64 only; this is {}"


class NativeThread(NamedTuple):
    """The native stack of a thread, and what the kernel said about it meanwhile."""

    task: int
    name: str
    waiting: str
    stack: wire.NativeStack

    @property
    def is_current(self) -> bool:
        """Whether the thread still waits at the same place."""
        return tasks.waiting(self.task).text == self.waiting


class _Walked(NamedTuple):
    task: int
    waiting: str
    raw: RawStack


class TimeLimit:
    """Called often: releases the GIL after each slice, and raises `UnwindError` when the time is over."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.thread_time() + CPU_S, time.monotonic() + WALL_S
        self._slice = time.monotonic() + SLICE_S

    def __call__(self) -> None:
        now = time.monotonic()
        if now < self._slice:
            return
        if now > self._wall or time.thread_time() > self._cpu:
            raise UnwindError("its time is over")
        time.sleep(GIL_RELEASE_S)
        self._slice = time.monotonic() + SLICE_S


def why_not() -> str:
    """Return why native stacks cannot be read on this machine; empty if they can."""
    machine = os.uname().machine
    if sys.platform != "linux" or machine != "x86_64" or sys.maxsize < 1 << 32:
        return ELSEWHERE.format(f"{sys.platform} on {machine}")
    return ""


def sample(own: Collection[int], of_python: Collection[int] = ()) -> tuple[NativeThread, ...]:
    """Return the native stacks of the main thread, if it waits, and of others that communicate.

    Threads with the ids `own` are left out; those `of_python` come before threads of libraries.
    """
    pid, this = os.getpid(), threading.get_native_id()
    if not tasks.waiting(pid).text:
        raise UnwindError("this kernel does not say where threads wait (/proc/self/task/*/syscall)")
    limit, memory = TimeLimit(), OwnMemory()
    try:
        walked = list(_walk(memory, limit, pid, {*own, this}, of_python))
        named = FunctionNames(memory, limit)
        named.look_up(frame for each in walked for frame in each.raw.frames)
        stacks = [(each, named.stack(each.raw)) for each in walked]
        chosen = [pair for pair in stacks if pair[0].task == pid or telling.communicates(pair[1].frames)][
            :MOST_THREADS
        ]
        told = ((each, replace(stack, waits_for=calls.words(each.waiting, memory))) for each, stack in chosen)
        found = (
            NativeThread(each.task, tasks.name_of(each.task), each.waiting, stack) for each, stack in told
        )
        return tuple(each for each in found if each.is_current)
    finally:
        memory.close()


def _walk(
    memory: OwnMemory, limit: TimeLimit, pid: int, own: Collection[int], of_python: Collection[int]
) -> Iterator[_Walked]:
    """Yield the stacks of waiting threads; of several alike, as idle ones are, only the first."""
    unwinder, seen = Unwinder(memory, limit), set[tuple[int, ...]]()
    order = sorted(tasks.tasks(), key=lambda task: (task != pid, task not in of_python, task))
    for task in [each for each in order if each not in own][:MOST_WALKED]:
        waiting = tasks.waiting(task)
        if not waiting.is_known:
            continue
        raw = unwinder.walk(waiting.pc, waiting.sp)
        addresses = tuple(each.pc for each in raw.frames)
        if addresses in seen or tasks.waiting(task).text != waiting.text:
            continue
        seen.add(addresses)
        yield _Walked(task, waiting.text, raw)


class FunctionNames:
    """The names of the functions in some stacks."""

    def __init__(self, memory: OwnMemory, limit: TimeLimit) -> None:
        self._memory, self._limit = memory, limit
        self._names: dict[tuple[str, CodePlace], str] = {}
        self._program = os.readlink("/proc/self/exe")  # noqa: PTH115 - it may end with " (deleted)"

    def look_up(self, frames: Iterable[RawFrame]) -> None:
        """Look up the functions of all frames at once: each symbol table is read once."""
        by_object: dict[ElfObject, set[CodePlace]] = {}
        for frame in frames:
            if frame.found is not None:
                by_object.setdefault(frame.found, set()).add(_place(frame, frame.found))
        for found, places in by_object.items():
            try:
                named = function_names(self._memory, found, places, self._limit)
            except (UnwindError, OSError):  # its frames are shown as places in the library
                continue
            self._names.update(((found.path, place), name) for place, name in named.items())

    def name(self, frame: RawFrame) -> str:
        """Return the name in the symbol table; empty if there is none."""
        found = frame.found
        return "" if found is None else self._names.get((found.path, _place(frame, found)), "")

    def stack(self, raw: RawStack) -> wire.NativeStack:
        """Return a stack for people: the interpreter as one line, without the start of the thread."""
        frames, lines = list(raw.frames), list[wire.NativeFrame]()
        while not raw.why_incomplete and len(frames) > 1 and self._starts_thread(frames[-1]):
            frames.pop()
        for frame in frames:
            line = self._line(frame)
            last = lines[-1] if lines else None
            if last is not None and line.library == telling.PYTHON == last.library:
                lines[-1] = wire.NativeFrame(last.function, last.library, 0, last.count + 1)
            else:
                lines.append(line)
        if raw.why_incomplete or len(lines) <= MOST_FRAMES:
            why = raw.why_incomplete
        else:
            why = f"{len(lines) - MOST_FRAMES} more frames"
        kept = tuple(reversed(lines[:MOST_FRAMES]))
        return wire.NativeStack(kept, telling.waits_in(kept), shorten(legible(why), LONGEST_REASON))

    def _starts_thread(self, frame: RawFrame) -> bool:
        found = frame.found
        return found is not None and (telling.is_of_system(found.name) or self.name(frame) == "_start")

    def _line(self, frame: RawFrame) -> wire.NativeFrame:
        found = frame.found
        if found is None:
            return wire.NativeFrame("", "memory", 0)
        if found.name.startswith("libpython") or found.path == self._program:
            return wire.NativeFrame(telling.PYTHON, telling.PYTHON)
        library, name = shorten(legible(found.name), LONGEST_LIBRARY), self.name(frame)
        if name:
            return wire.NativeFrame(names.readable(name), library)
        return wire.NativeFrame("", library, max(0, frame.inside - found.bias))


def _place(frame: RawFrame, found: ElfObject) -> CodePlace:
    start = None if frame.start is None else frame.start - found.bias
    return CodePlace(frame.inside - found.bias, start)
