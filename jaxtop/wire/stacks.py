"""The threads of a process and where they are."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import Count, TimeMs, WireInteger  # noqa: TC001 - msgspec reads the annotations

# The file of a place inside a compiled function, where Python has no frame.
COMPILED = "jaxlib/<compiled>"


class Place(Struct, frozen=True, array_like=True):
    """A line of a running function."""

    file: str
    line: WireInteger
    function: str


class NativeFrame(Struct, frozen=True, array_like=True):
    """A running function of a library, or a place in it whose function is unknown; or `count` alike."""

    function: str
    library: str
    offset: WireInteger = 0
    count: Count = 1


class NativeStack(Struct, frozen=True, array_like=True):
    """The native frames of a thread that waits in the kernel, the innermost last.

    `waits_in` is the innermost function that says what it waits for; empty if none does. `why_incomplete` is
    empty if all frames were found.
    """

    frames: tuple[NativeFrame, ...]
    waits_in: str = ""
    why_incomplete: str = ""


class Thread(Struct, frozen=True, array_like=True):
    """A thread and its Python stack, the innermost frame last; the main thread comes first.

    Threads of libraries have native frames only. `native` is None where native frames were not read.
    """

    name: str
    is_main: bool
    frames: tuple[Place, ...]
    unsent: WireInteger = 0
    native: NativeStack | None = None


class Stacks(Struct, frozen=True, omit_defaults=True, tag="stacks"):
    """The threads of a process without its agent's own, sent on request or because of a stall."""

    at_ms: TimeMs
    threads: tuple[Thread, ...]
