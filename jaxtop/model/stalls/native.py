"""Native frames as text, and the native function in which a process waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base.names import shorten

if TYPE_CHECKING:
    from jaxtop.wire import NativeFrame, NativeStack, Stacks, Thread

LONGEST_FUNCTION, LONGEST_LIBRARY = 100, 40
HEADING = "native"


def native_text(frame: NativeFrame) -> str:
    """Return a native frame as text: its function, or its place in a library."""
    library = shorten(frame.library, LONGEST_LIBRARY)
    name = shorten(frame.function, LONGEST_FUNCTION) or f"{library}+{frame.offset:#x}"
    return f"{name} ×{frame.count:,}" if frame.count > 1 else name


def heading_of(native: NativeStack) -> str:
    """Return the heading of native frames, with the reason if some are missing."""
    return f"{HEADING}, incomplete: {native.why_incomplete}" if native.why_incomplete else HEADING


def innermost_first(native: NativeStack) -> list[str]:
    return [native_text(each) for each in reversed(native.frames)]


def libraries_of(native: NativeStack) -> list[str]:
    """Return the libraries of the frames, the innermost first; empty where the frame names it itself."""
    return [each.library * bool(each.function) * (each.count == 1) for each in reversed(native.frames)]


def native_threads(stacks: Stacks) -> list[Thread]:
    """Return the threads whose native frames are known."""
    return [each for each in stacks.threads if each.native is not None]


def waits_in(stacks: Stacks) -> str:
    """Return the native function in which a process waits; empty if it is not known.

    Other threads than the main one have native frames only if they communicate, and the main thread waits
    for them.
    """
    found = [(each.is_main, each.native.waits_in) for each in stacks.threads if each.native is not None]
    return next((name for _, name in sorted(found, key=lambda each: each[0]) if name), "")
