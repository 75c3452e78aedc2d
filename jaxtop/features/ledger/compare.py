"""The comparison of two runs: which is slower beyond the noise of both, in which part of a step, and why.

A difference is real if it is larger than both runs waver together, and not too small to matter. How much a
run wavers comes from its own samples: what a step took in each of several parts of its time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# A difference below this share of a step is not reported, however steady both runs are.
MIN_DIFFERENCE_SHARE = 0.03
# The fewest samples that show how much a run wavers.
MIN_SAMPLES = 3
# With fewer samples, no extremes are left out.
MIN_TRIMMED_SAMPLES = 10
# The launches of a program in a step may differ by this share.
LAUNCHES_SHARE = 0.1
# They may also differ by this many launches at the ends of a time.
LAUNCHES_EDGE = 2
# The largest arrays of either run are compared.
MAX_ARRAYS = 20

Value = str | int | float


class MeasuredSteps(NamedTuple):
    """What a step took, in seconds of wall time, in parts of the time in which a run made steps.

    Processes of a run are samples of their own. `steps` and `seconds` are those of one process.
    """

    samples: tuple[float, ...]
    steps: int
    seconds: float

    @property
    def usual(self) -> float:
        """The mean of the middle half of the samples. A median would show that steps are counted whole."""
        aside = len(self.samples) // 4
        return fmean(sorted(self.samples)[aside : len(self.samples) - aside])

    @property
    def waver(self) -> float | None:
        """Half the width of what four of five samples lie in, as a share of a step; None if too few."""
        if len(self.samples) < MIN_SAMPLES:
            return None
        if len(self.samples) < MIN_TRIMMED_SAMPLES:
            low, high = min(self.samples), max(self.samples)
        else:
            low, *_, high = quantiles(self.samples, n=10, method="inclusive")
        return (high - low) / 2 / self.usual


class Kind(StrEnum):
    """What a difference is about, in the order in which differences are listed."""

    LATE = "late"
    DEVICES = "devices"
    FLAG = "flag"
    VERSION = "version"
    MESH = "mesh"
    PROGRAM = "program"
    ARRAY = "array"
    FINDING = "finding"


FINGERPRINT, LAUNCHES, BYTES = "fingerprint", "launches a step", "bytes on a device"
# Every run has these: one that is not there is not known.
_ALWAYS_THERE = frozenset({Kind.DEVICES, Kind.VERSION})
# Of these, only whether there is one counts.
_ONLY_PRESENT = frozenset({Kind.LATE, Kind.MESH, Kind.FINDING})
Facts = dict[tuple[Kind, str], dict[str, Value]]


@dataclass(frozen=True)
class ComparedRun:
    """One of the two runs: how long its steps took, where that went, and what it consists of.

    `parts` and `spent` are seconds of a step; empty if unknown. `facts` are figures by kind and name; `knows`
    are the kinds that are known completely, so that a missing one is really absent. `perhaps` also has
    what was there for too short a time to count: it is not a difference to a run that has it.
    """

    name: str
    took: MeasuredSteps
    parts: Mapping[str, float] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[tuple[Kind, str], Mapping[str, Value]] = field(default_factory=dict)
    knows: frozenset[Kind] = frozenset()
    perhaps: frozenset[tuple[Kind, str]] = frozenset()
    run: str = ""
    at: float | None = None
    processes: int = 1


class Shift(NamedTuple):
    """How many seconds of a step a part takes in both runs."""

    name: str
    a: float
    b: float


class RunDifference(NamedTuple):
    """Something in which the runs differ. Without `figure` it is in one of them only; the other is None.

    `a` and `b` are then what is to say about it there.
    """

    kind: Kind
    name: str
    figure: str
    a: Value | None
    b: Value | None


@dataclass(frozen=True)
class Comparison:
    """Two runs, and what follows from them."""

    a: ComparedRun
    b: ComparedRun

    @property
    def gap(self) -> float:
        """By how many seconds a step takes longer in B; negative where it is A's that takes longer."""
        return self.b.took.usual - self.a.took.usual

    @property
    def share(self) -> float:
        """How much longer the slower one's step is, as a share of the other's."""
        return abs(self.gap) / min(self.a.took.usual, self.b.took.usual)

    @property
    def noise(self) -> float | None:
        """The seconds by which both waver together; None if that is not known."""
        a, b = self.a.took, self.b.took
        if a.waver is None or b.waver is None:
            return None
        return a.waver * a.usual + b.waver * b.usual

    @property
    def is_real(self) -> bool:
        """Whether one is slower: beyond the noise, which must be known."""
        return self.noise is not None and abs(self.gap) > self.noise and self.share >= MIN_DIFFERENCE_SHARE

    @property
    def slower(self) -> str:
        """Which one is slower, "A" or "B"; empty if neither is, beyond the noise."""
        return "" if not self.is_real else "B" if self.gap > 0 else "A"

    @property
    def parts(self) -> list[Shift]:
        """Where a step goes in both; empty unless both know it."""
        return _shifts(self.a.parts, self.b.parts)

    @property
    def spent(self) -> list[Shift]:
        """What the processes spent the time of a step on; empty unless both know it."""
        return [each for each in _shifts(self.a.spent, self.b.spent) if each.a or each.b]

    def most_of_it(self, shifts: list[Shift]) -> Shift | None:
        """Return the part that has at least half of the difference; None if there is no such part."""
        of_gap = [each for each in shifts if (each.b - each.a) / self.gap >= 0.5] if self.gap else []
        return max(of_gap, key=lambda each: abs(each.b - each.a), default=None)

    def differences(self) -> list[RunDifference]:
        """Return in what the runs differ, by kind and name; what only one of them knows is left out."""
        kinds, largest = list(Kind), _largest_arrays(self.a, self.b)

        def order(key: tuple[Kind, str]) -> tuple[int, int, str]:
            return kinds.index(key[0]), largest.index(key[1]) if key[0] is Kind.ARRAY else 0, key[1]

        keys = [
            (kind, name)
            for kind, name in {**self.a.facts, **self.b.facts}
            if kind is not Kind.ARRAY or name in largest
        ]
        return [each for key in sorted(keys, key=order) for each in self._differences_of(*key)]

    def _differences_of(self, kind: Kind, name: str) -> Iterator[RunDifference]:
        if kind not in self.a.knows or kind not in self.b.knows:
            return
        a, b = self.a.facts.get((kind, name)), self.b.facts.get((kind, name))
        if a is None or b is None:
            lacks = self.a if a is None else self.b
            if kind not in _ALWAYS_THERE and (kind, name) not in lacks.perhaps:
                yield RunDifference(kind, name, "", _own_fact(a), _own_fact(b))
        elif kind not in _ONLY_PRESENT:
            for figure in {**a, **b}:
                one, other = a.get(figure), b.get(figure)
                if one is not None and other is not None and self._differ(figure, one, other):
                    yield RunDifference(kind, name, figure, one, other)

    def _differ(self, figure: str, a: Value, b: Value) -> bool:
        if figure != LAUNCHES or isinstance(a, str) or isinstance(b, str):
            return a != b
        edges = sum(LAUNCHES_EDGE / max(1, side.took.steps) for side in (self.a, self.b))
        return abs(a - b) > max(LAUNCHES_SHARE * max(a, b), edges)


def _shifts(a: Mapping[str, float], b: Mapping[str, float]) -> list[Shift]:
    if not a or not b:
        return []
    return [Shift(name, a.get(name, 0.0), b.get(name, 0.0)) for name in {**a, **b}]


def _own_fact(facts: Mapping[str, Value] | None) -> Value | None:
    """Return what is to say about something that only one has; empty if there is nothing."""
    return None if facts is None else facts.get("", "")


def _largest_arrays(*sides: ComparedRun) -> list[str]:
    """Return the names of the arrays that are the largest on a device of either run."""
    sizes: dict[str, int] = {}
    for side in sides:
        for (kind, name), facts in side.facts.items():
            size = facts.get(BYTES)
            if kind is Kind.ARRAY and isinstance(size, int):
                sizes[name] = max(size, sizes.get(name, 0))
    return sorted(sizes, key=lambda name: (-sizes[name], name))[:MAX_ARRAYS]
