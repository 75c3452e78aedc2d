"""The launches that make a step: a group of functions that is launched repeatedly in the same order."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise
from operator import eq
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The number of launches that are compared with later ones.
COMPARED_LAUNCHES = 512
# The number of launches of a step: its order must repeat within the compared launches.
MAX_LAUNCHES_PER_STEP = COMPARED_LAUNCHES // 4
# With fewer launches no pattern is searched for.
MIN_LAUNCHES = 6
# Slow steps are found sooner: after this many launches of one function at intervals of at least SLOW_NS. The
# more intervals there are, the less steady they have to be: the longest is at most STEADY times their number
# as long as the shortest.
FEWEST_SLOW, SLOW_NS, STEADY = 3, 500_000_000, 0.75
# The share of launches that must equal the launch one step later. A function that is launched every twentieth
# step, or less often, does not hide the step. A function that closes every ten launches makes them one step.
SAME, HARDLY_SAME = 0.9, 0.75
# A function that returns this many times less than other functions, and than it takes, only reads the state.
SMALL = 20


class FunctionLaunch(NamedTuple):
    """A launch: its time in nanoseconds, and its function."""

    at: int
    function: int


class Pattern(NamedTuple):
    """The launches of a step, the function that closes it, and how often a step launches that function."""

    group: tuple[int, ...]
    closer: int
    times: int


def makers(
    launches: Sequence[FunctionLaunch],
    arguments: Mapping[int, int | None],
    results: Mapping[int, int | None],
    own: frozenset[int],
) -> frozenset[int]:
    """Return the functions that advance the run: not JAX's `own` operations, nor functions that only read.

    `arguments` and `results` are the bytes that each function takes and returns.
    """
    functions = {launch.function for launch in launches} - own
    largest = max((results.get(each) or 0 for each in functions), default=0)

    def carries(function: int) -> bool:
        taken, returned = arguments.get(function), results.get(function)
        if taken is None or returned is None:
            return True
        return returned * SMALL >= (largest if taken * SMALL < largest else min(largest, taken))

    return frozenset(filter(carries, functions))


def is_still(pattern: Pattern, sequence: Sequence[int], least: float = HARDLY_SAME) -> bool:
    """Return whether launches repeat a pattern, at least this share of them."""
    if not set(pattern.group).issubset(sequence):
        return False
    return _same(sequence, len(pattern.group)) >= least


def find(sequence: Sequence[int], weights: Mapping[int, float]) -> Pattern | None:
    """Return the pattern of functions launched in this order; None if there are too few launches.

    If no order repeats, for example because several threads launch, a step is one launch of the function
    whose launches together weigh most.
    """
    if len(sequence) < MIN_LAUNCHES:
        return None
    length = _length(sequence)
    counts = Counter(sequence)
    if length is None:
        heaviest = max(counts, key=lambda each: (counts[each] * weights.get(each, 0.0), counts[each]))
        return Pattern((heaviest,), heaviest, 1)
    windows = Counter(tuple(sequence[i : i + length]) for i in range(len(sequence) - length + 1))
    most = max(windows.values())
    # The same group may begin at any of its launches: we take the rotation that ends with a rarest function,
    # and where that one is launched several times in a row, with the last of these.
    group = min(
        (each for each, count in windows.items() if count * 2 >= most),
        key=lambda each: (each.count(each[-1]), len(each) > 1 and each[0] == each[-1], each),
    )
    return Pattern(group, group[-1], group.count(group[-1]))


def find_slow(launches: Sequence[FunctionLaunch]) -> Pattern | None:
    """Return the pattern if these are a few slow launches of one function at steady intervals."""
    functions = {launch.function for launch in launches}
    if len(launches) < FEWEST_SLOW or len(functions) > 1:
        return None
    gaps = [after.at - before.at for before, after in pairwise(launches)]
    if min(gaps) < SLOW_NS or max(gaps) > min(gaps) * STEADY * len(gaps):
        return None
    return Pattern(tuple(functions), launches[0].function, 1)


def _length(sequence: Sequence[int]) -> int | None:
    best, at = 0.0, None
    for length in range(1, min(MAX_LAUNCHES_PER_STEP, len(sequence) // 2) + 1):
        same = _same(sequence, length)
        if same >= SAME:
            return length
        if same > best:
            best, at = same, length
    return at if best >= HARDLY_SAME else None


def _same(sequence: Sequence[int], length: int) -> float:
    pairs = len(sequence) - length
    return sum(map(eq, sequence, islice(sequence, length, None))) / pairs if pairs > 0 else 0.0
