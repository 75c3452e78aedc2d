"""The windows of the profiler that could not be used, and the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.host import run_of

if TYPE_CHECKING:
    from jaxtop.model.state import ClusterState


class Doubts(NamedTuple):
    """The largest share of device time that belongs to no launch, in a window that is empty for that reason.

    `unmatched` counts the numbers under which processes traced different launches.
    """

    unassigned: float
    unmatched: int

    @property
    def words(self) -> tuple[str, ...]:
        """What is left out of the figures, in words; empty if nothing is."""
        found = []
        if self.unassigned:
            found.append(f"{self.unassigned:.0%} of device time could not be assigned to launches")
        if self.unmatched:
            many = "launch" if self.unmatched == 1 else "launches"
            found.append(f"{self.unmatched:,} {many} could not be matched between processes")
        return tuple(found)


def doubts_about(cluster: ClusterState, run: str | None = None) -> Doubts:
    """Return what the windows of a run, or of all runs, could not be used for."""
    hosts = [host for host in cluster.hosts.values() if run is None or run_of(host) == run]
    shares = [host.window.unassigned_permille for host in hosts if not host.window.launches]
    unmatched = sum(
        each.unmatched for key, each in cluster.windows.programs.items() if run is None or key[0] == run
    )
    return Doubts(max(shares, default=0) / 1000, unmatched)
