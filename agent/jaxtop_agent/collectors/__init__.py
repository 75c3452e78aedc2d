"""Collectors: each reads one part of JAX or the machine, independently of the others.

The sampler's thread runs the collectors of `sampled()` in order. A new collector is a file here and a line
there. What is counted on the user's threads is in `hooks/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jaxtop_agent.arrays.watched_names import WatchedNames
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.core.budget import CpuShare
    from jaxtop_agent.hooks.launches import Launches
    from jaxtop_agent.steps.progress import Progress


# The collectors that also run without viewers while this process writes reports (`reporting/`).
REPORT_COLLECTORS = frozenset({"memory", "rhythm"})


class Collector(Protocol):
    """The interface between the sampler and a collector."""

    name: str
    # The share of a core that it may use on average.
    share: CpuShare
    # Whether it also runs without viewers: for figures of the roster, and rates that need an earlier reading.
    also_unwatched: bool

    def collect(self, board: Board, client: Any) -> bool | None:
        """Read the figures and put them onto the board; `client` is the default backend's, or None.

        Return true if there is more to read at once.
        """

    def forget(self, board: Board) -> None:
        """Remove the figures from the board: the collector is off, and they are unknown from now on."""


def sampled(
    watched: WatchedNames,
    launches: Launches | None,
    progress: Progress,
    own_threads: Callable[[], Collection[int]],
) -> tuple[Collector, ...]:
    """Return the sampler's collectors, in the order in which they run."""
    # Imported here: `loading` imports them one by one, so that a fork waits for one at a time.
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
        LoadedPrograms(launches),
        StepRhythm(launches, progress),
        HostFigures(own_threads),
    )
