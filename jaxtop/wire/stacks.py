"""The threads of a process and where they are."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import TimeMs, WireInteger  # noqa: TC001 - msgspec reads the annotations

# The file of a place inside a compiled function, where Python has no frame.
COMPILED = "jaxlib/<compiled>"


class Place(Struct, frozen=True, array_like=True):
    """A line of a running function."""

    file: str
    line: WireInteger
    function: str


class Thread(Struct, frozen=True, array_like=True):
    """A Python thread and its stack, the innermost frame last; the main thread comes first."""

    name: str
    is_main: bool
    frames: tuple[Place, ...]
    unsent: WireInteger = 0


class Stacks(Struct, frozen=True, omit_defaults=True, tag="stacks"):
    """The threads of a process without its agent's own, sent on request or because of a stall."""

    at_ms: TimeMs
    threads: tuple[Thread, ...]
