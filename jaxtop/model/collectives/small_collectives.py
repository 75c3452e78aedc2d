"""Many small collectives of one line of the script as one row."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from jaxtop.model.collectives.views import CollectiveView

# A collective of at most this many bytes is small. At least this many of one line share a row.
SMALL_BYTES = 64 << 10
MIN_FOLDED = 4


def folded_views(
    views: Sequence[CollectiveView], unfolded: Collection[Hashable] = ()
) -> list[CollectiveView]:
    """Return the rows, each at the place of its first collective; groups in `unfolded` are listed singly."""
    groups: dict[tuple[Any, ...], list[CollectiveView]] = defaultdict(list)
    for view in views:
        groups[_group_of(view)].append(view)
    rows: list[CollectiveView] = []
    for key, group in groups.items():
        is_row = _is_small(group[0]) and len(group) >= MIN_FOLDED and key not in unfolded
        rows += [_row(group)] if is_row else group
    order = {id(view): i for i, view in enumerate(views)}
    return sorted(rows, key=lambda view: order[id(view.folded[0] if view.folded else view)])


def _is_small(view: CollectiveView) -> bool:
    return view.bytes is not None and view.bytes <= SMALL_BYTES and bool(view.line)


def _group_of(view: CollectiveView) -> tuple[Any, ...]:
    """Return what collectives of one row have in common; large ones have a row each."""
    if not _is_small(view):
        return view.key
    return view.run, view.program, view.fingerprint, view.kind, view.line, view.added


def group_key(row: CollectiveView) -> tuple[Any, ...]:
    """Return the key under which the collectives of a row are folded."""
    return _group_of(row.folded[0] if row.folded else row)


def _row(group: list[CollectiveView]) -> CollectiveView:
    """Return the sums over a launch: bytes, times and rate; the wait is the longest.

    Sums are unknown where it is unknown how often a launch runs one of the collectives.
    """
    worst = max(group, key=lambda view: view.wait_us or 0)
    times = [view.times for view in group]
    rates = [view.per_second for view in group]
    return replace(
        worst,
        op=f"{len(group):,} {worst.kind}s at {worst.line}",
        shape="",
        bytes=None if None in times else sum((view.bytes or 0) * (view.times or 0) for view in group),
        times=None if None in times else sum(each or 0 for each in times),
        per_second=None if None in rates else sum(each or 0.0 for each in rates),
        samples=_samples(group),
        p50_us=None,
        p99_us=None,
        transfer_us=None,
        busbw_bytes_per_s=None,
        groups=worst.groups if all(view.groups == worst.groups for view in group) else (),
        folded=tuple(group),
    )


def _samples(group: list[CollectiveView]) -> int:
    """Return the sum of the samples. Those of NCCL Inspector, which alike collectives share, count once."""
    shared = {(view.group_size, view.bytes): view.samples for view in group if view.timed_by is not None}
    return sum(shared.values()) + sum(view.samples for view in group if view.timed_by is None)
