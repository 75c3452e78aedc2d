"""A program's kernels on a device, split into launches where the trace says nothing about launches.

Each launch runs the same operations, and the longest pause is the one before it. Where the trace shows
otherwise, nothing is split.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Kernel(NamedTuple):
    """A kernel or a copy on a stream that belongs to an operation of a program."""

    op: str
    start: int
    end: int
    correlation: int | None
    is_of_library: bool


class SplitKernels(NamedTuple):
    """Whole launches; kernels of launches that the trace cuts off; and kernels without a known launch."""

    launches: list[list[Kernel]]
    cut: list[Kernel]
    unknown: list[Kernel]


def split(kernels: Sequence[Kernel]) -> SplitKernels:
    """Split the kernels of a program on a device, in order of their starts."""
    nothing = SplitKernels([], [], [*kernels])
    counts = Counter(kernel.op for kernel in kernels)
    fewest = min(counts.values(), default=0)
    marker = next((kernel.op for kernel in kernels if counts[kernel.op] == fewest), None)
    places = [i for i, kernel in enumerate(kernels) if kernel.op == marker]
    lengths = {after - before for before, after in pairwise(places)}
    pauses = {_longest_pause(kernels[before : after + 1]) for before, after in pairwise(places)}
    if len(lengths) != 1 or len(pauses) != 1:
        return nothing
    (length,), (offset,) = lengths, pauses
    starts = range((places[0] + offset) % length, len(kernels), length)
    pieces = [list(kernels[first : first + length]) for first in starts]
    *whole, last = pieces
    contents = Counter(kernel.op for kernel in whole[0]) if whole else Counter()
    if not whole or any(Counter(kernel.op for kernel in piece) != contents for piece in whole):
        return nothing
    cut = list(kernels[: starts[0]])
    if Counter(kernel.op for kernel in last) == contents:
        whole.append(last)
    else:
        cut += last
    return SplitKernels(whole, cut, [])


def _longest_pause(kernels: Sequence[Kernel]) -> int:
    """Return the place of the kernel after the longest pause."""
    ended, pauses = kernels[0].end, []
    for kernel in kernels[1:]:
        pauses.append(kernel.start - ended)
        ended = max(ended, kernel.end)
    return 1 + pauses.index(max(pauses))
