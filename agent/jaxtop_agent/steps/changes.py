"""When the rhythm of the steps has changed, and the pauses between steps."""

from __future__ import annotations

from collections import deque
from itertools import accumulate, pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.steps.durations import (
    MIN_PAUSE_NS,
    ONLY_LAUNCHED_NS,
    until_other,
    usual_step,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop_agent.steps.durations import StepGap

# The rhythm has changed once this many steps in a row all take longer than most of those before them, by this
# factor and this time, or all less. Where single steps differ much, two sums of some steps each are compared
# with all such sums before them.
IN_A_ROW, FACTOR, AT_LEAST_NS = 5, 1.25, 5_000_000
FEWEST_BEFORE, MOST_BEFORE = 8, 32
BLOCK, BLOCKS_BEFORE, MOST_BLOCKS = 6, 4, 7
# Short steps must differ for this long, or in this many steps: on a busy machine, other work delays several
# in a row.
LASTS_NS, MOST_IN_A_ROW = 1_000_000_000, 32
# A stretch of steps is compared with those before it at each of this many parts of its length.
COMPARED_TIMES = 8
MOST_COMPARED = MOST_IN_A_ROW + MOST_BEFORE + BLOCK
# Steps are timed one by one where at most one in this many gaps is a mere launch, of the last ones as well.
MERE_LAUNCHES = 3
# A gap is a pause if it is this many times as long as the usual step, and longer by MIN_PAUSE_NS.
PAUSE = 3
# The pauses of the last minute count, but not those shorter than this part of the longest of the latest
# ones: they may have another cause. What pauses cost is taken from the latest, if there are enough.
LAST_NS, MOST_PAUSES = 60_000_000_000, 64
LATEST_NS, ENOUGH_PAUSES = 15_000_000_000, 3
AS_LONG = 0.4
# Pauses have a period if there are this many distances between them.
MIN_PERIODS = 2
# The share of the distances that must be close to the period.
PERIODIC_SHARE = 0.75
# The difference from the period, as a share of it, up to which a distance is close to it.
MAX_PERIOD_DIFFERENCE = 0.05
# The number of last gaps from which the usual gap is computed.
USUAL_GAPS = 64


class StepTimes:
    """The times of single steps. Many stretches are compared, so the sum of one takes no loop."""

    def __init__(self, steps: Sequence[float]) -> None:
        self._steps = steps
        self._sums = list(accumulate(steps, initial=0.0))
        self._launched = list(accumulate((each <= ONLY_LAUNCHED_NS for each in steps), initial=0))

    def may_change(self, new: int) -> bool:
        """Return whether the rhythm may have changed at one of the new steps: there are steps that differ."""
        compared = self._steps[max(0, len(self._steps) - new - MOST_COMPARED) :]
        return bool(compared) and max(compared) - min(compared) > AT_LEAST_NS

    def are_timed(self, start: int, end: int) -> bool:
        """Return whether the script waits for each step, or nearly: no launches run ahead of the device."""
        longer, shorter = max(start, end - MOST_COMPARED), max(start, end - 2 * BLOCK)
        launched = self._launched
        return (
            MERE_LAUNCHES * (launched[end] - launched[longer]) <= end - longer
            and MERE_LAUNCHES * (launched[end] - launched[shorter]) <= end - shorter
        )

    def stride(self) -> int:
        """Return how many steps further to compare again: short steps must differ in many steps."""
        return max(1, self._lasting(0, len(self._steps)) // COMPARED_TIMES) if self._steps else 1

    def changed_at(self, start: int, end: int) -> int | None:
        """Return the index of the first step of a new rhythm, from the steps between; None if it is the same.

        It sorts only if the answer is open.
        """
        steps, in_a_row = self._steps, self._lasting(max(start, end - IN_A_ROW), end)
        newest = max(start, end - in_a_row)
        oldest = max(start, end - in_a_row - MOST_BEFORE)
        if newest - oldest < FEWEST_BEFORE:
            return None
        last, before = steps[newest:end], steps[oldest:newest]
        is_new = None
        if _may_differ(last, min(before), max(before)):
            before = sorted(before)
            is_new = _differs(last, before[len(before) // 4], before[-1 - len(before) // 4])
            if is_new and sorted(last)[len(last) // 2] <= ONLY_LAUNCHED_NS < before[len(before) // 4]:
                is_new = None  # launches that wait for nothing, as after a pause
        if is_new is not None:
            first = newest
            while first > start and is_new(steps[first - 1]):
                first -= 1
            return first if first > start else None
        block = max(BLOCK, in_a_row)
        count = min(MOST_BLOCKS, (end - start) // block)
        if count < BLOCKS_BEFORE + 2:
            return None
        oldest, middle = end - count * block, end - 2 * block
        usual = self._mean(oldest, middle)
        latest = [self._mean(i - block, i) for i in (end, end - block)]
        if not _may_differ(latest, usual, usual):
            return None
        others = [self._mean(i, i + block) for i in range(oldest, middle, block)]
        return None if _differs(latest, min(others), max(others)) is None else middle

    def _lasting(self, start: int, end: int) -> int:
        """Return how many steps, at the pace of these, take long enough to be a rhythm."""
        took = self._sums[end] - self._sums[start]
        if not took:
            return MOST_IN_A_ROW
        return max(IN_A_ROW, min(MOST_IN_A_ROW, round((end - start) * LASTS_NS / took)))

    def _mean(self, start: int, end: int) -> float:
        return (self._sums[end] - self._sums[start]) / (end - start)


def _may_differ(last: Sequence[float], least: float, most: float) -> bool:
    """Return whether figures may be clearly outside of bounds that are no closer than these."""
    return min(last) > least + AT_LEAST_NS or max(last) < most - AT_LEAST_NS


def _differs(last: Sequence[float], least: float, most: float) -> Callable[[float], bool] | None:
    """Return a test for figures clearly outside these bounds; None unless all of the last are on one side."""
    above, below = max(most * FACTOR, most + AT_LEAST_NS), min(least / FACTOR, least - AT_LEAST_NS)
    if min(last) > above:
        return lambda one: one > above
    if max(last) < below:
        return lambda one: one < below
    return None


class PauseSummary(NamedTuple):
    """The pauses of the last minute: their number, the time from the first to the last, what a step loses.

    `every` is the number of steps from one to the next, if it is always about the same; 0 if it is not.
    """

    number: int
    span_ns: int
    lost_ns: float
    every: int = 0


class _Pause(NamedTuple):
    """The end of a pause, how much longer than a step it was, and the time and the steps until then."""

    end: int
    longer: float
    passed: int
    steps: int


class Pauses:
    """Finds pauses among the gaps between steps. From pause to pause, the mean step shows what they cost."""

    def __init__(self) -> None:
        self._found: deque[_Pause] = deque(maxlen=MOST_PAUSES)
        self._passed = self._steps = 0
        self._until = 0
        self._is_long = False

    def look(self, gaps: Sequence[StepGap]) -> PauseSummary | None:
        """Return the pauses, with those among new gaps; None if there are none, or one long ago."""
        usual = usual_step(gaps[-USUAL_GAPS:]) if gaps else None
        if usual is None:
            self._found.clear()
            return None
        step, launches = usual
        new = [until_other(gap, launches) for gap in gaps if gap.end > self._until]
        self._until = gaps[-1].end
        for gap in new:
            self._passed += gap.duration
            self._steps += gap.steps
            expected = step * gap.steps
            is_long = gap.duration > max(PAUSE * expected, expected + MIN_PAUSE_NS)
            if is_long and not self._is_long:  # several in a row are the beginning of another rhythm
                self._found.append(_Pause(gap.end, gap.duration - expected, self._passed, self._steps))
            self._is_long = is_long
        while self._found and self._found[0].end < self._until - LAST_NS:
            self._found.popleft()
        if not self._found or (len(self._found) == 1 and self._found[0].end < self._until - LATEST_NS):
            return None  # a single one is not part of the last seconds any more
        longest = max(each.longer for each in list(self._found)[-ENOUGH_PAUSES:])
        alike = [each for each in self._found if each.longer >= AS_LONG * longest]
        first, last = alike[0], alike[-1]
        latest = [each for each in alike if each.end >= self._until - LATEST_NS]
        since = latest[0] if len(latest) >= ENOUGH_PAUSES else first
        steps = last.steps - since.steps
        lost = max(0.0, (last.passed - since.passed) / steps - step) if steps else 0.0
        return PauseSummary(len(alike), last.end - first.end, lost, _period(alike))


def _period(pauses: Sequence[_Pause]) -> int:
    """Return the steps from pause to pause; 0 if they differ, or there are too few pauses to tell."""
    apart = [after.steps - before.steps for before, after in pairwise(pauses)]
    if len(apart) < MIN_PERIODS:
        return 0
    usual = round(median(apart))
    alike = sum(abs(each - usual) <= MAX_PERIOD_DIFFERENCE * usual for each in apart)
    return usual if alike >= PERIODIC_SHARE * len(apart) else 0
