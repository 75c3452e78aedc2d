"""What NCCL Inspector timed, for collectives that no window has timed.

NCCL knows kinds, sizes and groups, but no programs. So all collectives alike in these have the same times.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.host import NO_NCCL_TIMES, run_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.model.state import ClusterState
    from jaxtop.wire import NcclTime

# Older times do not describe the present.
OLDEST_MS = 60_000
NAME = "NCCL Inspector"


class Alike(NamedTuple):
    """What collectives share that have the same times: run, kind, members of a group, and bytes."""

    run: str
    kind: str
    ranks: int
    bytes: int


class Inspected(NamedTuple):
    """How often one process ran them, and how long they took where they took longest."""

    samples: int
    p50_us: int
    p99_us: int


def inspected(cluster: ClusterState) -> Mapping[Alike, Inspected]:
    """Return the times that processes reported within the last minute."""
    found: dict[Alike, list[NcclTime]] = defaultdict(list)
    for host in cluster.hosts.values():
        last = host.nccl_times
        if last is NO_NCCL_TIMES or host.bye is not None or host.pulse.at_ms - last.at_ms > OLDEST_MS:
            continue
        for each in last.times:
            found[Alike(run_of(host), each.kind, each.ranks, each.bytes)].append(each)
    return {
        alike: Inspected(
            max(each.count for each in times),
            max(each.p50_us for each in times),
            max(each.p99_us for each in times),
        )
        for alike, times in found.items()
    }
