"""Collectives the way they are shown: what programs contain, joined with what windows measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.cluster.fold import Cluster


@dataclass(frozen=True, slots=True)
class Straggler:
    """Who came last, by a device of theirs, in which part of the instances, and by how much."""

    agent: str
    process_index: int | None
    device_id: int
    share: float
    late_us: int


@dataclass(frozen=True, slots=True)
class CollectiveView:
    """A collective operation of a program, over all processes that run it; None where unknown.

    `bytes` and `busbw` follow the definitions of nccl-tests. `samples` counts the instances that were measured
    at all participants of a group; times are over these. `wait_us` is the median of the longest wait in a
    group, `waits_us` the median wait of each device.
    """

    run: str
    program: str
    fingerprint: str | None
    op: str
    kind: str
    source: str
    shape: str
    axes: tuple[str, ...] | None
    is_whole_axes: bool  # False where groups are only parts of these axes
    groups: tuple[tuple[int, ...], ...]  # device ids
    group_size: int | None
    crosses_hosts: bool | None
    bytes: int | None
    times: int | None
    per_second: float | None
    samples: int
    p50_us: int | None = None
    p99_us: int | None = None
    transfer_us: int | None = None
    wait_us: int | None = None
    busbw_bytes_per_s: int | None = None
    straggler: Straggler | None = None
    is_enough: bool = False  # whether there are samples enough for a verdict
    waits_us: Mapping[int, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from all others."""
        return self.run, self.program, self.fingerprint, self.op


class KnownCollectives:
    """What was derived already, for whoever asks again."""


def collectives(cluster: Cluster, known: KnownCollectives | None = None) -> list[CollectiveView]:
    """All collectives of all runs, those that take most of the time first."""
    raise NotImplementedError
