"""Collectors: each reads one thing of JAX or the machine, and knows nothing of the others.

Those of `sampled()` are asked in turn by the sampler's thread; a new one is a file here and a line there.
Launches and compilations are hooks that JAX calls on the user's threads; the publisher reads their counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jaxtop_agent.arrays.watched import Watched
    from jaxtop_agent.collectors.steps import Launched
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.core.budget import Share
    from jaxtop_agent.steps.progress import Progress


class Collector(Protocol):
    """What the sampler asks of a collector."""

    name: str
    # What it may take of a core, on average.
    share: Share
    # Whether it runs also while nobody watches: what the roster needs, and rates that need a reading before.
    also_unwatched: bool

    def collect(self, board: Board, client: Any) -> None:
        """Read, and put what was read onto the board; `client` is the default backend's, or None."""

    def forget(self, board: Board) -> None:
        """Take the figures off the board again: the collector is off, and they are unknown from now on."""


def sampled(
    watched: Watched,
    launched: Launched | None,
    progress: Progress,
    own_threads: Callable[[], Collection[int]],
) -> tuple[Collector, ...]:
    """The sampler's collectors, in the order in which they run."""
    # Here, because the hooks beside them are loaded on the user's thread, and must not bring these along.
    from jaxtop_agent.collectors.arrays import ArrayCensus
    from jaxtop_agent.collectors.host import HostFigures
    from jaxtop_agent.collectors.memory import AllocatorMemory
    from jaxtop_agent.collectors.programs import LoadedPrograms
    from jaxtop_agent.collectors.steps import StepRhythm
    from jaxtop_agent.collectors.topology import TopologyOfProcess

    return (
        TopologyOfProcess(),
        AllocatorMemory(),
        ArrayCensus(watched),
        LoadedPrograms(),
        StepRhythm(launched, progress),
        HostFigures(own_threads),
    )
