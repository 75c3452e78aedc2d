"""What the agent takes, part by part."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import TimeMs  # noqa: TC001 - msgspec reads the annotations


class Costs(Struct, frozen=True, omit_defaults=True, tag="costs"):
    """The CPU that each part of an agent used in the `for_ms` since it began, in microseconds.

    Collectors run on the sampler's thread: theirs is part of its time. What JAX's hooks count on the threads
    of the script is in neither.
    """

    at_ms: TimeMs
    for_ms: int
    collectors_us: dict[str, int] = {}
    threads_us: dict[str, int] = {}
