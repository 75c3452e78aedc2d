"""Find slow members among peers of equal hardware, from rounds in which all of them were measured."""

from __future__ import annotations

from math import exp, log, sqrt
from statistics import median, median_high
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# A member is slow if it is this many robust spreads below the others, and slow in this share of the rounds;
# otherwise the difference is noise. The spread of its own rounds has less weight: a member without enough of
# its machine is both slow and unsteady.
SPREADS, OWN_SPREADS = 4.0, 2.0
AGREEING = 0.9
MIN_ROUNDS = 5
# Factors from a median distance to a standard deviation, and from that to the deviation of a median.
ROBUST, OF_MEDIAN = 1.4826, 1.2533


class Share(NamedTuple):
    """The speed of one member as a share of its peers' speed."""

    share: float
    is_slow: bool


def compare(speeds: Sequence[Sequence[float]], tolerance: float) -> list[Share]:
    """Return the speed of each member as a share of the median of all, and whether it is slow.

    Members are compared round by round, so that a drift affects all of them alike. Whether one is slow is
    decided against the median of the others. Of two middle values the faster counts, so that half of the
    members can be slow: nothing is faster than it can be. The spread of the faster half defines what is
    normal. Distances are logarithms: half as fast is as far as twice as fast.
    """
    rounds = min(map(len, speeds), default=0)
    if len(speeds) < 2 or not rounds:
        return []
    middle = [median_high(each[number] for each in speeds) for number in range(rounds)]
    typical = [median(log(each[number] / middle[number]) for number in range(rounds)) for each in speeds]
    others = [_median_of_others([each[number] for each in speeds]) for number in range(rounds)]
    against = [
        [log(each[number] / others[number][place]) for number in range(rounds)]
        for place, each in enumerate(speeds)
    ]
    distances = [distance(each) for each in against]
    faster = sorted(range(len(speeds)), key=typical.__getitem__)[len(speeds) // 2 :]
    slowest = min(typical[i] for i in faster)
    between = ROBUST * median(typical[i] - slowest for i in faster)
    usual = median(distances[i] for i in faster)
    of_median = ROBUST * OF_MEDIAN / sqrt(rounds)
    far = log(1 - tolerance)
    return [
        Share(
            exp(share),
            rounds >= MIN_ROUNDS
            and median(each)
            < min(far, -max(SPREADS * between, of_median * max(SPREADS * usual, OWN_SPREADS * own)))
            and sum(one < far / 2 for one in each) >= AGREEING * rounds,
        )
        for share, own, each in zip(typical, distances, against, strict=True)
    ]


def _median_of_others(speeds: Sequence[float]) -> list[float]:
    """Return for each member the median of all others; of two middle values the faster."""
    ordered = sorted(speeds)
    middle = (len(speeds) - 1) // 2
    return [ordered[middle + 1] if speed <= ordered[middle] else ordered[middle] for speed in speeds]


def distance(values: Sequence[float]) -> float:
    """Return the median distance from the median."""
    middle = median(values)
    return median(abs(value - middle) for value in values)
