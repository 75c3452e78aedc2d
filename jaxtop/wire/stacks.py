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
    empty if all frames were found. `waits_for` is what the system call says that it waits for; empty if it
    does not tell.
    """

    frames: tuple[NativeFrame, ...]
    waits_in: str = ""
    why_incomplete: str = ""
    waits_for: str = ""

    @property
    def wait(self) -> str:
        """In what or for what the thread waits: "in gloo::allreduce", or "for a child process"."""
        if self.waits_in:
            return f"in {self.waits_in}"
        return f"for {self.waits_for}" if self.waits_for else ""


NO_NATIVE_STACK = NativeStack(())


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

    @property
    def telling(self) -> NativeStack:
        """The native stack that says what the process waits for; an empty one if none does.

        Other threads than the main one have native frames only if they communicate, and the main thread
        waits for them. What its system call says counts only where no function tells.
        """
        known = [(each.is_main, each.native) for each in self.threads if each.native is not None]
        in_order = [native for _, native in sorted(known, key=lambda each: each[0])]
        named = [each for each in in_order if each.waits_in]
        main = [native for is_main, native in known if is_main and native.waits_for]
        return next(iter([*named, *main]), NO_NATIVE_STACK)
