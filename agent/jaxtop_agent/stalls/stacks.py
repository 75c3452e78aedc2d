"""Reads the stacks of the process's threads: lines and names, no values.

It reads a few threads at a time and lets others run in between. Meanwhile it holds no frame, because a held
frame keeps its variables alive after its function has ended.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.base.names import shorten
from jaxtop_agent.arrays import origins, running_frames
from jaxtop_agent.core import threads
from jaxtop_agent.core.waiting import release_gil
from jaxtop_agent.stalls import calls

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from types import CodeType, FrameType

MOST_THREADS, MOST_FRAMES = 64, 64
AT_ONCE = 8
# A deep stack is cut in the middle: this many outermost frames are kept, and the rest of them are innermost.
OUTERMOST_FRAMES = 16
# The number of frames of a stack that are read.
MAX_WALKED_FRAMES = 5_000
MOST_BYTES = 60_000
# The length of a name in a message.
MAX_NAME_CHARS = 120
NAMELESS = "without a name"


def read(
    own: frozenset[int],
    functions: Collection[str] = (),
    native: Mapping[int, wire.NativeStack] | None = None,
    others: Sequence[wire.Thread] = (),
) -> tuple[wire.Thread, ...]:
    """Return the stacks of all Python threads except `own`, the main thread first, and then `others`.

    If the main thread has called a compiled function, or one of `functions`, that call is the last frame.
    `native` has the native stacks of some threads by their idents.
    """
    native = native or {}
    names = {ident: threads.fact(each, "_name", NAMELESS) for ident, each in threads.listed().items()}
    main, frames = threads.main_ident(), running_frames.frames()
    there = sorted(frames.keys() - own, key=lambda ident: (ident != main, ident))
    frames.clear()
    order = there[:MOST_THREADS]
    found: list[wire.Thread] = []
    for start in range(0, len(order), AT_ONCE):
        frames = running_frames.frames()
        try:
            for ident in order[start : start + AT_ONCE]:
                if ident in frames:  # it may have ended since
                    thread = _thread(names.get(ident, NAMELESS), ident == main, frames[ident])
                    launch = calls.launch(frames[ident], functions) if ident == main else None
                    found.append(replace(_with_launch(thread, launch), native=native.get(ident)))
        finally:
            frames.clear()
        release_gil()
    return _bounded([*found, *others])


def _with_launch(thread: wire.Thread, name: str | None) -> wire.Thread:
    if name is None:
        return thread
    inside = wire.Place(wire.COMPILED, thread.frames[-1].line, name[:MAX_NAME_CHARS])
    return replace(thread, frames=(*thread.frames, inside))


def _thread(name: str, is_main: bool, frame: FrameType) -> wire.Thread:
    stack = running_frames.stack(frame, MAX_WALKED_FRAMES)
    count = len(stack)
    if count > MOST_FRAMES:
        stack = stack[: MOST_FRAMES - OUTERMOST_FRAMES] + stack[-OUTERMOST_FRAMES:]
    places = tuple(place(each.f_code, each.f_lineno) for each in reversed(stack))
    return wire.Thread(name, is_main, places, count - len(stack))


def place(code: CodeType, line: int | None) -> wire.Place:
    # The line is None for instructions that the compiler assigned to no line.
    return wire.Place(short(code.co_filename), line or 0, shorten(code.co_name, MAX_NAME_CHARS))


def _bounded(threads: list[wire.Thread]) -> tuple[wire.Thread, ...]:
    """Reduce the frames per thread, and then the threads, until they fit into one message."""
    most = MOST_FRAMES
    while len(wire.encode(wire.Stacks(0, tuple(threads)))) > MOST_BYTES:
        if most > 4:
            most //= 2
            threads = [each if each.is_main else _cut(each, most) for each in threads]
        else:
            threads = threads[: len(threads) // 2]
    return tuple(threads)


def _cut(thread: wire.Thread, most: int) -> wire.Thread:
    left_out = max(0, len(thread.frames) - most)
    return replace(thread, frames=thread.frames[left_out:], unsent=thread.unsent + left_out)


@lru_cache(maxsize=4096)
def short(file: str) -> str:
    """Shorten a path: the script's own files to the bare name, libraries to the path inside their folder."""
    if file.startswith("<"):
        return shorten(file, MAX_NAME_CHARS)
    for installed in origins.PACKAGE_FOLDERS:
        _, found, inside = file.rpartition(f"/{installed}/")
        if found:
            return shorten(inside if "/" in inside else f"{installed}/{inside}", MAX_NAME_CHARS)
    if origins.is_library(file):
        for root in origins.roots():
            if file.startswith(root):
                folder = os.path.basename(root.rstrip("/"))  # noqa: PTH119 - only text is cut
                return shorten(f"{folder}/{file.removeprefix(root)}", MAX_NAME_CHARS)
    return shorten(os.path.basename(file), MAX_NAME_CHARS)  # noqa: PTH119 - only text is cut
