"""The times of NCCL Inspector, for collectives that no window has timed.

NCCL knows kinds, sizes and groups, but no programs. So all collectives alike in these have the same times.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.host import run_of
from jaxtop.model.hosts import host_views

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jaxtop.model.state import ClusterState
    from jaxtop.wire import NcclTime, NcclTimes

NAME = "NCCL Inspector"


class SameTimes(NamedTuple):
    """What collectives share that have the same times: run, kind, members of a group, and bytes."""

    run: str
    kind: str
    ranks: int
    bytes: int


class InspectedCollectives(NamedTuple):
    """How often one process ran them, and how long they took where they took longest."""

    samples: int
    p50_us: int
    p99_us: int


def inspected_ops(cluster: ClusterState, now: float) -> Mapping[SameTimes, InspectedCollectives]:
    """Return the current times of the processes."""
    views = host_views(cluster, now)
    reports = [
        (run_of(view.host), view.current.nccl_times) for view in views if view.current.nccl_times.times
    ]
    return cluster.derived.get(NAME, tuple(chain.from_iterable(reports)), lambda: _longest(reports))


def _longest(reports: Iterable[tuple[str, NcclTimes]]) -> Mapping[SameTimes, InspectedCollectives]:
    found: dict[SameTimes, list[NcclTime]] = defaultdict(list)
    for run, report in reports:
        for each in report.times:
            found[SameTimes(run, each.kind, each.ranks, each.bytes)].append(each)
    return {
        alike: InspectedCollectives(
            max(each.count for each in times),
            max(each.p50_us for each in times),
            max(each.p99_us for each in times),
        )
        for alike, times in found.items()
    }
