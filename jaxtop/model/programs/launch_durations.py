"""The durations of launches of a program, as a histogram that is small enough for keyframes.

A bucket is a twentieth longer than the one before, so a percentile is exact to 2.5 %.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RATIO = 1.05
# From this many launches on, the counts are halved: what comes later counts more.
MAX_COUNTED = 4096
# The fewest launches from which each percentile is computed.
MIN_LAUNCHES_OF_QUANTILE = {0.5: 8, 0.99: 100}

Lasted = dict[int, int]


def with_launches(older: Mapping[int, int], durations_us: Iterable[int]) -> Lasted:
    """Return a histogram with the durations of more launches."""
    found = Counter(older)
    found.update(round(math.log(max(1, each), RATIO)) for each in durations_us)
    if found.total() > MAX_COUNTED:
        return {bucket: count // 2 for bucket, count in found.items() if count > 1}
    return dict(found)


def together(histograms: Iterable[Mapping[int, int]]) -> Lasted:
    found: Counter[int] = Counter()
    for each in histograms:
        found.update(each)
    return dict(found)


def percentile_us(lasted: Mapping[int, int], share: float) -> float | None:
    """Return the duration that this share of the launches does not exceed; None with too few."""
    number = sum(lasted.values())
    if number < MIN_LAUNCHES_OF_QUANTILE[share]:
        return None
    seen = 0
    for bucket in sorted(lasted):
        seen += lasted[bucket]
        if seen >= share * number:
            break
    return float(RATIO**bucket)
