"""The CPU cost of the agent, part by part."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import TimeMs  # noqa: TC001 - msgspec reads the annotations


class Costs(Struct, frozen=True, omit_defaults=True, tag="costs"):
    """The CPU time of each part of an agent, in microseconds, over the `for_ms` since it started.

    Collectors run on the sampler's thread, so their time is part of that thread's. Neither includes JAX's
    hooks, which run on the threads of the script.
    """

    at_ms: TimeMs
    for_ms: int
    collectors_us: dict[str, int] = {}
    threads_us: dict[str, int] = {}
