"""A program's kernels on a device, split into launches where the trace says nothing of launches.

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
    is_collective: bool


class Split(NamedTuple):
    """Whole launches; kernels of launches that the trace cuts off; and kernels of which nothing is known."""

    launches: list[list[Kernel]]
    cut: list[Kernel]
    unknown: list[Kernel]


def split(kernels: Sequence[Kernel]) -> Split:
    """Split the kernels of a program on a device, in order of their starts."""
    counts = Counter(kernel.op for kernel in kernels)
    fewest = min(counts.values(), default=0)
    marks = [i for i, kernel in enumerate(kernels) if counts[kernel.op] == fewest]
    marker = kernels[marks[0]].op if fewest > 1 else None
    places = [i for i in marks if kernels[i].op == marker]
    firsts = {_after_longest_pause(kernels, first, last) for first, last in pairwise(places)}
    if len(firsts) != 1:
        return Split([], [], [*kernels])
    begin = firsts.pop()
    starts = [i for i, kernel in enumerate(kernels) if kernel.op == begin]
    pieces = [list(kernels[first:last]) for first, last in pairwise([*starts, len(kernels)])]
    *whole, last = pieces
    contents = [Counter(kernel.op for kernel in piece) for piece in whole]
    if not whole or any(each != contents[0] for each in contents):
        return Split([], [], [*kernels])
    cut = list(kernels[: starts[0]])
    if Counter(kernel.op for kernel in last) == contents[0]:
        whole.append(last)
    else:
        cut += last
    return Split(whole, cut, [])


def _after_longest_pause(kernels: Sequence[Kernel], first: int, last: int) -> str:
    """Return the operation after the longest pause between these places; the last one included."""
    ended = kernels[first].end
    longest, found = None, ""
    for kernel in kernels[first + 1 : last + 1]:
        pause = kernel.start - ended
        if longest is None or pause > longest:
            longest, found = pause, kernel.op
        ended = max(ended, kernel.end)
    return found
