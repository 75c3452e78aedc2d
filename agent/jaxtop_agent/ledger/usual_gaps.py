"""Gaps of usual length between the same two functions, and the shares of them that each kind takes."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import accumulate, pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.ledger.pieces import IN_JAX, IN_SCRIPT, Seconds, Sighting, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

USUAL_OF, FEWEST_USUAL = 64, 4
# Samples of usual gaps that are put together before their shares are final; the fewest that say anything.
WHOLE_POOL, FEWEST_SAMPLES = 256, 8
# The shares of a pool are computed again when it has this many times as many samples or gaps.
MORE = 1.1
MOST_GAPS = 2048


class GapSample(NamedTuple):
    """The kind that a sample saw in a gap, its time after the start, and the length of the gap."""

    after: float
    length: float
    kind: str


class UsualGaps:
    """Usual gaps between the same two functions: their time, and where in a gap samples saw what."""

    def __init__(self) -> None:
        self.lengths: deque[float] = deque(maxlen=USUAL_OF)
        self.seconds = 0.0
        self._gaps: list[float] = []  # their lengths; of very many every second one, again and again
        self._stride, self._skipped = 1, 0
        self.samples: list[GapSample] = []
        self.shares: dict[str, float] = {}  # of the last samples whose shares are final
        # The shares of the samples so far, and how many samples and gaps there were when they were found.
        self._so_far: tuple[int, int, dict[str, float]] = 0, 0, {}
        self._added = 0

    def add(self, length: float, samples: Iterable[GapSample] = ()) -> None:
        """Add a usual gap."""
        self.lengths.append(length)
        self.samples += samples
        self._added += 1
        self._skipped += 1
        if self._skipped >= self._stride:
            self._skipped = 0
            self._gaps.append(length)
        if len(self._gaps) > MOST_GAPS:
            self._gaps = self._gaps[::2]
            self._stride *= 2

    @property
    def is_whole(self) -> bool:
        """Whether it has enough samples to make their shares final."""
        return len(self.samples) >= WHOLE_POOL

    @property
    def usual(self) -> float | None:
        return median(self.lengths) if len(self.lengths) >= FEWEST_USUAL else None

    @property
    def usual_kinds(self) -> frozenset[str]:
        """The samples in usual gaps."""
        return frozenset(self.shares) | {each.kind for each in self.samples}

    def spent(self) -> dict[str, float]:
        """Return the time of the pool by kind, without what no sample tells apart from stepping."""
        shares = self._shares_so_far() if len(self.samples) >= FEWEST_SAMPLES else self.shares
        return {kind: share * self.seconds for kind, share in shares.items()}

    def _shares_so_far(self) -> dict[str, float]:
        """Return the shares of the samples so far; computed again when there are many more of them, or gaps.

        A step of many functions has as many pools, of which few get a sample between two calls.
        """
        samples, gaps, shares = self._so_far
        if len(self.samples) > MORE * samples or self._added > MORE * gaps:
            shares = shares_of(self.samples, self._gaps)
            self._so_far = len(self.samples), self._added, shares
        return shares

    def find_shares_anew(self) -> None:
        self._so_far = 0, 0, {}

    def finish(self) -> None:
        """Make the shares final, so that a later change of the script does not change the past."""
        self.shares = shares_of(self.samples, self._gaps)
        self.seconds, self.samples, self._gaps = 0.0, [], []
        self._added = 0
        self.find_shares_anew()


def shares_of(samples: Sequence[GapSample], gaps: Sequence[float]) -> dict[str, float]:
    """Return which share of these gaps each kind takes, from samples at their places in some of them.

    A script does the same in each gap, but gaps differ in length. What it does right after a launch is at the
    same distance from the start of all gaps, what it does before the next one from their ends; what takes its
    share of each is at the same part of them. The way that tells the kinds apart best is taken.
    """
    ways = (
        [Sighting(each.after, each.kind) for each in samples],
        [Sighting(each.length - each.after, each.kind) for each in samples],
        [Sighting(each.after / each.length, each.kind) for each in samples],
    )
    ordered = [sorted(way) for way in ways]
    changes = [sum(one.kind != other.kind for one, other in pairwise(way)) for way in ordered]
    best = min(range(len(ways)), key=changes.__getitem__)
    if best == len(ways) - 1 or not gaps:
        found = nearest([(0.0, 1.0)], ordered[-1], IN_JAX)
    else:
        found = _nearest_in_gaps(ordered[best], gaps)
    return {kind: share for kind, share in found.items() if kind not in (IN_JAX, IN_SCRIPT)}


def _nearest_in_gaps(samples: Sequence[Sighting], gaps: Sequence[float]) -> Seconds:
    """Return the shares of gaps by the kind of the nearest sample, by its distance from their start."""
    ordered = sorted(gaps)
    sums = list(accumulate(ordered, initial=0.0))

    def up_to(distance: float) -> float:
        shorter = bisect_right(ordered, distance)
        return sums[shorter] + distance * (len(ordered) - shorter)

    edges = [0.0, *((one.at + other.at) / 2 for one, other in pairwise(samples)), ordered[-1]]
    found = Seconds()
    for (start, end), sample in zip(pairwise(edges), samples, strict=True):
        found[sample.kind] += (up_to(max(start, end)) - up_to(start)) / sums[-1]
    return found
