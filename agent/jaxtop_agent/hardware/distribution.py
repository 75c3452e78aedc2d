"""Distributions as the TPU runtime counts them: the number of values in each bucket since it started."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.base.protobuf import ProtobufMessage


class Buckets(NamedTuple):
    """Bounds between buckets, and counts: one more than bounds, as values beyond both ends count."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]

    def counts_since(self, before: Buckets | None) -> Buckets | None:
        """Return the counts added after `before`; None where its bounds differ or the counters were reset."""
        if before is None or before.bounds != self.bounds:
            return None
        counts = tuple(now - then for now, then in zip(self.counts, before.counts, strict=True))
        return Buckets(self.bounds, counts) if min(counts) >= 0 else None

    def percentile(self, share: float) -> float | None:
        """Return the value below which this share of the values is, by interpolation; None without values."""
        total = sum(self.counts)
        wanted = share * total
        for place, reached in enumerate(accumulate(self.counts)):
            if total and reached >= wanted and self.counts[place]:
                low = self.bounds[place - 1] if place else 0.0
                # The last bucket has no upper bound.
                high = self.bounds[place] if place < len(self.bounds) else low
                return low + (high - low) * (wanted - reached + self.counts[place]) / self.counts[place]
        return None


def add(all_of: Sequence[Buckets]) -> Buckets | None:
    """Return the sum of distributions over the same buckets; None where the buckets differ."""
    if not all_of or len({each.bounds for each in all_of}) != 1:
        return None
    counts = tuple(sum(column) for column in zip(*(each.counts for each in all_of), strict=True))
    return Buckets(all_of[0].bounds, counts)


def buckets(distribution: ProtobufMessage) -> Buckets | None:
    """Read a `Distribution` of tpu_metric_service.proto; None for kinds of buckets that it deprecates."""
    options = distribution.message(6)
    counts = distribution.numbers(7)
    if options is None:
        return None
    bounds = _bounds(options)
    if not bounds or len(counts) > len(bounds) + 1:
        return None
    return Buckets(bounds, (*counts, *(0 for _ in range(len(bounds) + 1 - len(counts)))))


def _bounds(options: ProtobufMessage) -> tuple[float, ...]:
    if (growing := options.message(2)) is not None:
        count, factor, scale = growing.number(1) or 0, growing.double(2) or 0, growing.double(3) or 0
        return tuple(scale * factor**i for i in range(count + 1)) if 0 < count < 1000 else ()
    if (even := options.message(4)) is not None:
        count, width, offset = even.number(1) or 0, even.double(2) or 0, even.double(3) or 0
        return tuple(offset + width * i for i in range(count + 1)) if 0 < count < 1000 else ()
    if (listed := options.message(3)) is not None:
        return tuple(listed.doubles(1))
    return ()
