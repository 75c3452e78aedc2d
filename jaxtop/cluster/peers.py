"""Who is slow among those that should be alike, told from rounds in which all of them were measured."""

from __future__ import annotations

from math import exp, log, sqrt
from statistics import median, median_high
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# So many robust spreads below the others, and in this part of the rounds: else it is noise.
SPREADS = 4.0
AGREEING = 0.75
LEAST_ROUNDS = 5
# What turns a median of distances into a standard deviation, and that into one of a median.
ROBUST, OF_MEDIAN = 1.4826, 1.2533


class Share(NamedTuple):
    """What one reaches of its peers' speed."""

    share: float
    is_slow: bool


def compare(speeds: Sequence[Sequence[float]], tolerance: float) -> list[Share]:
    """Each one's speed against the median of all, round by round, so that what drifts drifts for all.

    Where half of them are slow the median is that of the others: nothing is faster than it can be. How far
    apart the faster half is says what is normal, in logarithms: half as fast is as far as twice as fast.
    """
    rounds = min(map(len, speeds), default=0)
    if len(speeds) < 2 or not rounds:
        return []
    peers = [median_high(each[number] for each in speeds) for number in range(rounds)]
    shares = [[log(each[number] / peers[number]) for number in range(rounds)] for each in speeds]
    medians = [median(each) for each in shares]
    faster = sorted(range(len(shares)), key=medians.__getitem__)[len(shares) // 2 :]
    between = ROBUST * median(abs(medians[i]) for i in faster)
    of_median = ROBUST * OF_MEDIAN / sqrt(rounds)
    within = of_median * median(distance(shares[i]) for i in faster)
    far, apart = log(1 - tolerance), SPREADS * max(between, within)
    return [
        Share(
            exp(share),
            rounds >= LEAST_ROUNDS
            and share < min(far, -apart)
            and sum(one < far / 2 for one in each) >= AGREEING * rounds,
        )
        for share, each in zip(medians, shares, strict=True)
    ]


def distance(values: Sequence[float]) -> float:
    """How far half of them are from their median."""
    middle = median(values)
    return median(abs(value - middle) for value in values)
