"""The temporaries at the peak of the step's program, each rescaled by the axes that its shape shows.

A buffer whose dimensions are those of a shard, whole or gathered along some axes, is rescaled as that array.
Others are results of layers: each dimension that is as long as a divided dimension of some array is taken to
be divided by the same axes. Where several readings are possible, the bounds are those over all of them.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.features.planning.model.roles import BATCH, shapes_of
from jaxtop.features.planning.model.sharding import local_shape, sizes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import Parts, PlacedArray, Today

# More readings of a buffer than this say nothing.
MAX_READINGS = 64
MAX_DIMENSIONS = 8
# Arrays that more axes divide are left out: each subset of the axes is a reading.
MAX_AXES = 5


class RescaledTemporaries(NamedTuple):
    """The bounds of the listed temporaries on a candidate, and the bytes of today that they explain."""

    low: float
    high: float
    explained: int


def rescaled(today: Today, axes: Axes, placed: Sequence[PlacedArray]) -> RescaledTemporaries | None:
    """Return the bounds of the temporaries at the peak; None unless a process has sent what they are."""
    peak = today.peak
    listed = [each for each in peak.buffers if each.kind == "temporary"] if peak is not None else []
    if not listed:
        return None
    reader = _Reader(today, axes, placed)
    low = high = 0.0
    explained = 0
    for each in listed:
        found = reader.ratios(each.shape)
        if found is not None:
            low += each.bytes * min(found)
            high += each.bytes * max(found)
            explained += each.bytes
    return RescaledTemporaries(low, high, explained)


class _Reader:
    """Reads shapes of buffers as those of arrays on today's mesh."""

    def __init__(self, today: Today, axes: Axes, placed: Sequence[PlacedArray]) -> None:
        self._old, self._new = dict(today.axes), dict(axes)
        # The elements that a candidate has for the dimensions of a shard today, by those dimensions in order.
        self._shards: dict[tuple[int, ...], set[float]] = defaultdict(set)
        # The axes that may divide a dimension of this length on a device.
        self._lengths: dict[int, set[tuple[str, ...]]] = defaultdict(set)
        self._rows: dict[int, set[tuple[str, ...]]] = defaultdict(set)
        self._found: dict[str, set[float] | None] = {}
        # Layers repeat: few arrays differ in what matters here.
        kinds = {
            (each.tensor.role == BATCH, each.tensor.shape, each.tensor.parts, each.parts)
            for each in placed
            if each.tensor.groups == 1 and each.tensor.shape
        }
        for is_batch, shape, before, after in kinds:
            if before is not None and after is not None:
                if is_batch:
                    self._add_batch(shape, before)
                else:
                    self._add(shape, before, after)

    def ratios(self, text: str) -> set[float] | None:
        """Return what the size of a buffer may be multiplied by; None if its shape shows nothing."""
        if text not in self._found:
            shapes = shapes_of(text)
            self._found[text] = self._read(shapes[0]) if len(shapes) == 1 else None
        return self._found[text]

    def _add_batch(self, shape: Sequence[int], parts: Parts) -> None:
        for length, dividing in zip(local_shape(tuple(shape), parts, self._old), parts, strict=False):
            if dividing:
                self._rows[length].add(dividing)
                self._lengths[length].add(dividing)

    def _add(self, shape: tuple[int, ...], before: Parts, after: Parts) -> None:
        old_axes = {axis for dividing in before for axis in dividing}
        new_axes = {axis for dividing in after for axis in dividing} - old_axes
        if len(old_axes | new_axes) > MAX_AXES:
            return
        for left in _subsets(old_axes):
            here = _only(before, left)
            local = local_shape(shape, here, self._old)
            for added in _subsets(new_axes):
                there = local_shape(shape, _only(after, left | added), self._new)
                self._relate(local, there)
                self._relate(local[1:], there[1:])  # one layer of several
            for length, dividing in zip(local, [*here, *((),) * len(local)], strict=False):
                self._lengths[length].add(tuple(dividing))

    def _relate(self, local: tuple[int, ...], there: tuple[int, ...]) -> None:
        elements: int = prod(local)
        if local and elements:
            self._shards[sizes_of(local)].add(prod(there) / elements)

    def _read(self, dimensions: tuple[int, ...]) -> set[float] | None:
        dims = sizes_of(dimensions)
        if not dims:
            return {1.0}
        if dims in self._shards:
            return self._shards[dims]
        options = [self._options(length) for length in dims[:MAX_DIMENSIONS]]
        if not any(options) or prod(len(each) or 1 for each in options) > MAX_READINGS:
            return None
        readings = [
            [axis for dividing in chosen for axis in dividing]
            for chosen in product(*(each or {()} for each in options))
        ]
        possible = {frozenset(reading) for reading in readings if len(set(reading)) == len(reading)}
        # Results of layers have a dimension of rows: a reading with one is the more likely.
        rows = set[tuple[str, ...]]().union(*self._rows.values())
        of_rows = {used for used in possible if any(used.issuperset(dividing) for dividing in rows)}
        return {
            prod(self._old.get(axis, 1) / self._new.get(axis, 1) for axis in used)
            for used in of_rows or possible
        } or None

    def _options(self, length: int) -> set[tuple[str, ...]]:
        """Return the axes that may divide a dimension of this length; none if nothing is known of it."""
        if length in self._lengths:
            return self._lengths[length]
        # Rows and another dimension in one, such as sequences and their tokens.
        return {
            dividing
            for rows, known in self._rows.items()
            if rows > 1 and length % rows == 0
            for dividing in known
        }


def _subsets(axes: set[str]) -> Iterator[set[str]]:
    for count in range(len(axes) + 1):
        yield from map(set, combinations(sorted(axes), count))


def _only(parts: Parts, axes: set[str]) -> Parts:
    return tuple(tuple(axis for axis in dividing if axis in axes) for dividing in parts)
