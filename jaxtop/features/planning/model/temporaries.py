"""Bounds of a program's temporaries on another mesh, from those that its compiler reports today.

Each temporary of today was divided by some of the axes, which is not known. So its new size lies between the
bounds over all subsets of the axes, of the products of their old sizes over the new ones. Gathering and
reducing need memory of their own, which comes and goes with the axes that divide parameters and batch. Where
a process has sent the buffers at the peak, their shapes narrow the bounds.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.units import in_bytes
from jaxtop.features.planning.model.buffers import rescaled
from jaxtop.features.planning.model.roles import OPTIMIZER, PARAMETERS, batch_axes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import Parts, PlacedArray, Today

# Compilers schedule and fuse otherwise on another mesh. The first margin is that of bounds over all axes, the
# second that of buffers read one by one, whose peak may also move to another moment of the program.
SLACK = 0.1
BUFFERS_LOW, BUFFERS_HIGH = 0.5, 1.5
# What is gathered has a gradient as large; what is reduced is there before and after.
GRADIENT_COPIES = 2


class BytesNeeded(NamedTuple):
    """The bounds of a number of bytes, and how they were found."""

    low: float
    high: float
    source: str


def temporary_bytes(today: Today) -> int | None:
    """Return the bytes of temporaries today: the compiler's figure, or the sum of what a process has sent."""
    program, peak = today.program, today.peak
    if program is not None and program.temp_bytes is not None:
        return program.temp_bytes
    return peak.temporary_bytes if peak is not None and not peak.why_not else None


def temporaries(today: Today, axes: Axes, placed: Sequence[PlacedArray]) -> BytesNeeded | None:
    """Return the bounds of the temporaries of the step's program; None where they are unknown today."""
    now = temporary_bytes(today)
    if now is None:
        return None
    if is_as_today(today, axes, placed):
        return BytesNeeded(now, now, "the compiler's figure")
    small, large = ratios(today, axes, placed)
    left, added = _moved_bytes(today, axes, placed)
    low = max(0.0, now - left) * small * (1 - SLACK)
    high = (now * large + added) * (1 + SLACK)
    source = f"{in_bytes(now)} of today, each divided by some of the axes: × {small:.3g} to {large:.3g}"
    read = rescaled(today, axes, placed)
    if read is not None:
        rest = max(0, now - read.explained)
        low = max(low, (read.low + rest * small - left) * BUFFERS_LOW)
        high = max(low, min(high, (read.high + rest * large + added) * BUFFERS_HIGH))
        source = f"{in_bytes(read.explained)} of {in_bytes(now)} of today rescaled by the shapes of buffers"
    if left:
        source += f"; up to {in_bytes(left)} of today serve to gather and reduce, and may go"
    if added:
        source += f"; up to {in_bytes(added)} more to gather and reduce"
    return BytesNeeded(low, high, source)


def scaled(today: Today, axes: Axes, placed: Sequence[PlacedArray], size: float) -> tuple[float, float]:
    """Return the bounds of bytes of today of which it is not known which axes divide them."""
    if is_as_today(today, axes, placed):
        return size, size
    small, large = ratios(today, axes, placed)
    return size * small, size * large


def is_as_today(today: Today, axes: Axes, placed: Sequence[PlacedArray]) -> bool:
    """Return whether a candidate is today's layout, whatever the order of the axes."""
    old, new = dict(today.axes), dict(axes)
    return _sized(old) == _sized(new) and all(
        _divisors(each.parts, new) == _divisors(each.tensor.parts, old) for each in placed
    )


def _sized(sizes: Mapping[str, int]) -> dict[str, int]:
    return {axis: size for axis, size in sizes.items() if size > 1}


def _divisors(parts: Parts | None, sizes: Mapping[str, int]) -> list[tuple[str, ...]]:
    found = [tuple(axis for axis in axes if sizes.get(axis, 1) > 1) for axes in parts or ()]
    while found and not found[-1]:
        found.pop()
    return found


def ratios(today: Today, axes: Axes, placed: Sequence[PlacedArray]) -> tuple[float, float]:
    """Return the bounds of new size over old size, of anything that some of the axes divide."""
    old, new = dict(today.axes), dict(axes)
    before = _used(each.parts for each in today.tensors) | {
        axis for each in today.exchanges for axis in each.axes or ()
    }
    after = _used(each.parts for each in placed)
    pairs = {(each.tensor.parts, each.parts) for each in placed}
    gained = {axis for was, becomes in pairs for axis in _used([becomes]) - _used([was])}
    lost = {axis for was, becomes in pairs for axis in _used([was]) - _used([becomes])}
    small = large = 1.0
    for axis in sorted(before | after):
        was, becomes = old.get(axis, 1), new.get(axis, 1)
        ratio = was / becomes
        # A rule may divide what was whole, and what an axis does not divide any more is whole.
        small *= 1 / becomes if axis in gained else min(1.0, ratio)
        large *= was if axis in lost else max(1.0, ratio)
    return small, large


def _used(listed: Iterable[Parts | None]) -> set[str]:
    return {axis for parts in set(listed) for axes in parts or () for axis in axes}


def _moved_bytes(today: Today, axes: Axes, placed: Sequence[PlacedArray]) -> tuple[float, float]:
    """Return the bytes that gathering and reducing need today and not on the candidate, and the reverse."""
    old, new = dict(today.axes), dict(axes)
    of_batch = batch_axes(today, placed)
    left = added = parameters = 0.0
    of_optimizer, of_parameters = set[str](), set[str]()
    for array in placed:
        tensor = array.tensor
        had = {axis for axis in _used([tensor.parts]) if old.get(axis, 1) > 1}
        has = {axis for axis in _used([array.parts]) if new.get(axis, 1) > 1}
        if tensor.role == OPTIMIZER:
            of_optimizer |= has - had
        if tensor.role not in (PARAMETERS, None) or tensor.parts is None:
            continue
        if gone := had - has:
            left += (
                GRADIENT_COPIES * tensor.count * tensor.bytes_per_device * prod(old[axis] for axis in gone)
            )
        if come := has - had:
            added += (
                GRADIENT_COPIES * tensor.count * array.bytes_per_device * prod(new[axis] for axis in come)
            )
        if tensor.role == PARAMETERS:
            parameters += tensor.count * array.bytes_per_device
            of_parameters |= has
            # Its gradient is reduced over the axes of the batch that do not divide it.
            reduces = any(old.get(axis, 1) > 1 for axis in of_batch - had)
            will_reduce = any(new.get(axis, 1) > 1 for axis in of_batch - has)
            if reduces and not will_reduce:
                left += GRADIENT_COPIES * tensor.count * tensor.bytes_per_device
            if will_reduce and not reduces:
                added += tensor.count * array.bytes_per_device
    if of_optimizer - of_parameters:  # updated parameters are gathered over axes that do not divide them
        added += parameters
    return left, added
