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
    """Return the heading of native frames: what the thread waits for, and the reason if some are missing.

    A function that tells is among the frames.
    """
    waits = f", waits {wait_text(native)}" if native.waits_for and not native.waits_in else ""
    return HEADING + waits + (f", incomplete: {native.why_incomplete}" if native.why_incomplete else "")


def wait_text(native: NativeStack) -> str:
    """Return in what or for what a thread waits: "in gloo::allreduce"; empty if it is not known."""
    return shorten(native.wait, LONGEST_FUNCTION)


def innermost_first(native: NativeStack) -> list[str]:
    return [native_text(each) for each in reversed(native.frames)]


def libraries_of(native: NativeStack) -> list[str]:
    """Return the libraries of the frames, the innermost first; empty where the frame names it itself."""
    return [each.library * bool(each.function) * (each.count == 1) for each in reversed(native.frames)]


def native_threads(stacks: Stacks) -> list[Thread]:
    """Return the threads whose native frames are known."""
    return [each for each in stacks.threads if each.native is not None]
