"""Which launches make a step: the group of functions that is launched again and again in the same order."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from operator import eq
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# So many launches are compared with those that come after them; a step may have a quarter as many.
COMPARED = 512
LONGEST = COMPARED // 4
FEWEST = 6
# Of the launches that a step repeats so many are the same again. What is launched at every twentieth step, or
# less often, does not hide the step; what closes each ten launches makes a step of them.
SAME, HARDLY_SAME = 0.9, 0.75
# Functions that return so much less than others, and than they take, only look at the state.
SMALL = 20


class Launch(NamedTuple):
    """A launch: when, in nanoseconds, and of which function."""

    at: int
    function: int


class Pattern(NamedTuple):
    """The group of launches of a step, and the launch that closes it: one of so many of that function."""

    group: tuple[int, ...]
    closer: int
    times: int


def makers(
    launches: Sequence[Launch],
    arguments: Mapping[int, int | None],
    results: Mapping[int, int | None],
    own: frozenset[int],
) -> frozenset[int]:
    """The functions that carry the run forward: neither JAX's own operations nor those that only look.

    Empty where the script launches nothing but JAX's own operations.

    Args:
        launches: The launches, in their order.
        arguments: How many bytes each function takes, where that is known.
        results: How many bytes each returns, likewise.
        own: The functions that are JAX's own operations.
    """
    functions = {launch.function for launch in launches} - own
    largest = max((results.get(each) or 0 for each in functions), default=0)

    def carries(function: int) -> bool:
        taken, returned = arguments.get(function), results.get(function)
        if taken is None or returned is None:
            return True
        return returned * SMALL >= (largest if taken * SMALL < largest else min(largest, taken))

    return frozenset(filter(carries, functions))


def is_still(pattern: Pattern, sequence: Sequence[int]) -> bool:
    """Whether launches go on to repeat it."""
    if not set(pattern.group).issubset(sequence):
        return False
    return _same(sequence, len(pattern.group)) >= HARDLY_SAME


def find(sequence: Sequence[int], weights: Mapping[int, float]) -> Pattern | None:
    """The pattern of these functions, launched in this order; None if there are too few launches.

    Where nothing is repeated in order, as when threads launch side by side, a step is a launch of the one
    that weighs most, all its launches together.
    """
    if len(sequence) < FEWEST:
        return None
    length = _length(sequence)
    counts = Counter(sequence)
    if length is None:
        heaviest = max(counts, key=lambda each: (counts[each] * weights.get(each, 0.0), counts[each]))
        return Pattern((heaviest,), heaviest, 1)
    windows = Counter(tuple(sequence[i : i + length]) for i in range(len(sequence) - length + 1))
    most = max(windows.values())
    # The same group begins anywhere: that one is taken which ends with its rarest function, the latest of it.
    group = min(
        (each for each, count in windows.items() if count * 2 >= most),
        key=lambda each: (each.count(each[-1]), _repeats(each), each),
    )
    return Pattern(group, group[-1], group.count(group[-1]))


def _length(sequence: Sequence[int]) -> int | None:
    best, at = 0.0, None
    for length in range(1, min(LONGEST, len(sequence) // 2) + 1):
        same = _same(sequence, length)
        if same >= SAME:
            return length
        if same > best:
            best, at = same, length
    return at if best >= HARDLY_SAME else None


def _same(sequence: Sequence[int], length: int) -> float:
    pairs = len(sequence) - length
    return sum(map(eq, sequence, islice(sequence, length, None))) / pairs if pairs > 0 else 0.0


def _repeats(group: tuple[int, ...]) -> int:
    """How often a function of the group is launched twice in a row, across its end."""
    return int(len(group) > 1 and group[0] == group[-1])
