"""The time of steps by part, as plain values: shares of wall time, now and over the last hour."""

from __future__ import annotations

from math import ceil
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from jaxtop.wire.bounds import Count, Measure, TimeS  # noqa: TC001 - msgspec reads the annotations

if TYPE_CHECKING:
    from collections.abc import Sequence

# With more than this share unknown, too little is measured to call a run healthy.
MAX_UNKNOWN = 0.5
# The most samples of a run. Once there are this many, each two become one and the interval doubles.
MAX_SAMPLES = 120
# The first interval between two samples, in seconds.
SHORTEST_S = 2.0
# The longest interval between two samples, in seconds. At this interval the samples cover an hour, and the
# oldest ones are dropped.
LONGEST_S = 30.0
# A sample stays valid for this many of its steps; a longer time without one is a gap.
GOES_ON = 2.5
WHOLE = 1000
# Times on the border of a column belong to the column before it.
ROUNDING = 1e-6


class Parts(NamedTuple):
    """The shares of wall time of a process, or the means over processes; they add up to 1.

    `communication` is exposed: nothing else ran on the device meanwhile. `waiting` is the part of it that is
    spent until the last member of a collective comes. In a `host_gap` nothing is launched; for its part
    `delayed`, the main thread waits for a core. `at` is the time of the windows that the durations of
    launches come from, None without windows.
    """

    compute: Measure
    communication: Measure
    waiting: Measure
    host_gap: Measure
    unknown: Measure
    at: TimeS | None = None
    delayed: Measure = 0.0

    @property
    def busy(self) -> float:
        """The share of wall time in which programs run, as far as it is measured."""
        return self.compute + self.communication + self.waiting


NAMES = ("compute", "communication", "waiting", "host_gap", "unknown")


def shares_of(found: Parts | None) -> list[tuple[str, float]]:
    """Return the parts with their names as words; none if they are unknown."""
    return [] if found is None else [(name.replace("_", " "), getattr(found, name)) for name in NAMES]


class RunParts(NamedTuple):
    """The mean parts of the processes of a run that are not late, how many these are, and the late ones.

    To wait for a late process is what its lateness costs; its own parts show what it does instead.
    """

    parts: Parts
    processes: Count
    late: tuple[str, ...] = ()

    @property
    def is_enough(self) -> bool:
        """Whether enough of the time is explained for a verdict."""
        return self.parts.unknown <= MAX_UNKNOWN


class CheckedStep(NamedTuple):
    """The step of all runs at a check of the rules: where it goes, and its wall time in seconds.

    The wall time includes pauses. Views show these figures next to findings, which rest on the same ones.
    """

    parts: RunParts | None
    wall_s: Measure | None


class StepSample(Struct, frozen=True, array_like=True):
    """The step of a run in the time since the sample before: its parts in thousandths, empty if unknown.

    The parts are in the order of `NAMES`. Times are medians over processes.
    """

    after_ms: Count
    parts: tuple[Count, ...] = ()
    p50_us: Count | None = None
    p99_us: Count | None = None


class PastSteps(Struct, frozen=True, array_like=True, eq=False):
    """The samples of a run, the oldest first, and the time of the newest. It is compared by identity."""

    at: TimeS
    samples: tuple[StepSample, ...]
    every_s: float = SHORTEST_S

    @property
    def is_valid(self) -> bool:
        """Whether this module can have written it."""
        return len(self.samples) <= MAX_SAMPLES and all(len(each.parts) in (0, 5) for each in self.samples)

    @property
    def since(self) -> float:
        """Since when there are samples: each stands for the time before it."""
        return self.at - sum(each.after_ms for each in self.samples) / 1000

    def times(self) -> list[float]:
        """Return when each sample was taken."""
        at, found = self.at, []
        for each in reversed(self.samples):
            found.append(at)
            at -= each.after_ms / 1000
        return found[::-1]

    def plus(self, at: float, sample: StepSample) -> PastSteps:
        """Return these samples and a newer one; with too many, each two become one."""
        after = sample.after_ms if not self.samples else round(max(0.0, at - self.at) * 1000)
        samples = (*self.samples, StepSample(after, sample.parts, sample.p50_us, sample.p99_us))
        every = self.every_s
        if len(samples) > MAX_SAMPLES:
            if every < LONGEST_S:
                samples, every = _halved(samples), 2 * every
            else:
                samples = samples[1:]
        return PastSteps(at, samples, every)

    def columns(self, since: float, until: float, count: int) -> list[StepSample | None]:
        """Return `count` columns of the time between: the means of their samples; None where there is none.

        A sample stands for the time since the one before it, so that few samples make no gaps.
        """
        width = (until - since) / max(1, count)
        if width <= 0:
            return [None] * count
        members: list[list[StepSample]] = [[] for _ in range(count)]
        for at, each in zip(self.times(), self.samples, strict=True):
            covers = min(each.after_ms / 1000, GOES_ON * self.every_s)
            last = ceil((at - since) / width - ROUNDING) - 1
            first = min(last, int((at - covers - since) / width + ROUNDING))
            for column in range(max(0, first), min(count - 1, last) + 1):
                members[column].append(each)
        return [_mean(each) if each else None for each in members]


def _halved(samples: Sequence[StepSample]) -> tuple[StepSample, ...]:
    """Return the means of each two samples; an odd one at the end stays."""
    pairs = [samples[i : i + 2] for i in range(0, len(samples), 2)]
    return tuple(_mean(pair, sum(each.after_ms for each in pair)) for pair in pairs)


def _mean(samples: Sequence[StepSample], after_ms: int = 0) -> StepSample:
    if len(samples) == 1:
        return samples[0]
    parts = [each.parts for each in samples if each.parts]
    mean = tuple(round(fmean(column)) for column in zip(*parts, strict=True)) if parts else ()
    p50 = [each.p50_us for each in samples if each.p50_us is not None]
    p99 = [each.p99_us for each in samples if each.p99_us is not None]
    return StepSample(after_ms, mean, round(fmean(p50)) if p50 else None, max(p99) if p99 else None)
