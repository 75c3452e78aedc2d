"""The duration of a step over time: from the counters in pulses, and from the sums in ledgers.

A pulse counts launches at its own time. So the time between two pulses and the steps between them say what a
step took, with all that happened between the steps. The counters stand still within a step: a sample is long
enough for that to make no noise that counts.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.features.ledger.compare import MeasuredSteps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop.features.ledger.model import ProcessLedger

# The most samples of a process.
MAX_SAMPLES = 20
# The shortest sample, in seconds.
SHORTEST_S = 1.5
# The most processes that are counted.
MAX_PROCESSES = 64
# A sample lasts this many times as long as it is uncertain when its first and last step began. Where that
# makes too few samples, less certain ones are made.
CERTAIN, HARDLY_CERTAIN, MIN_SAMPLES = 30, 8, 5
# A part of the time may be shorter by this much.
ROUNDING_MS = 1
# Seconds between two counts of the steps in a ledger.
LEDGER_EVERY_S = 2.0
# Time that goes to these kinds is not time of steps.
NOT_OF_STEPS = ("starting", "compiling", "cached", "restoring", "ending")
# A process says what it spent its time on for at least this share of the time, or that does not count.
MIN_COVERAGE = 0.3
# Processes whose last steps are so close together stopped together.
TOGETHER_S = 10.0


class StepMark(NamedTuple):
    """How far a process was: when that was recorded, its own time, and what it had counted by then."""

    at: float
    at_ms: int
    done: int


class ProcessSteps:
    """The steps of one process over a time, and the launches of each function in it."""

    def __init__(self) -> None:
        self._marks: dict[str, list[StepMark]] = defaultdict(list)
        # The steps of its rhythms and the launches that were counted with them, first and last, by function.
        self._rhythms: dict[str, dict[int, tuple[int, int, int, int]]] = defaultdict(dict)
        self._launches: dict[str, tuple[int, int]] = {}
        # What it had spent its time on, in seconds by kind, by its own time in milliseconds.
        self._spent: dict[int, dict[str, float]] = {}

    def note(self, ledger: wire.Ledger) -> None:
        for each in (*ledger.past, wire.LedgerPoint(ledger.at_ms, ledger.spent_ms)):
            self._spent[each.at_ms] = {
                kind: ms / 1000 for kind, ms in zip(wire.SPENT_ON, each.spent_ms, strict=False)
            }

    def take(self, pulse: wire.Pulse, at: float) -> None:
        rhythm = pulse.rhythm
        if rhythm is None:
            return
        for function, launched in pulse.launches.items():
            first, _ = self._launches.get(function, (launched, launched))
            self._launches[function] = min(first, launched), launched
        closer = rhythm.functions[-1] if rhythm.functions else ""
        count = pulse.launches.get(closer) if closer else _reported(pulse)
        marks = self._marks[closer]
        if count is None or (marks and count <= marks[-1].done):
            return
        marks.append(StepMark(at, pulse.at_ms, count))
        steps, first, *_ = self._rhythms[closer].get(rhythm.serial, (rhythm.steps, count))
        self._rhythms[closer][rhythm.serial] = steps, first, rhythm.steps, count

    @property
    def closer(self) -> str:
        """The function whose launch ends a step; empty if the script reports its steps."""
        return max(self._marks, key=lambda each: self._duration(self._marks[each]), default="")

    @staticmethod
    def _duration(marks: Sequence[StepMark]) -> int:
        return marks[-1].at_ms - marks[0].at_ms if marks else 0

    @property
    def marks(self) -> Sequence[StepMark]:
        return self._marks.get(self.closer, ())

    @property
    def per_step(self) -> int:
        """How often a step launches the function that ends it."""
        closer = self.closer
        if not closer:
            return 1
        both = [(last - first, until - since) for first, since, last, until in self._rhythms[closer].values()]
        steps, counted = max(both, default=(0, 0))
        return max(1, round(counted / steps)) if steps else 1

    @property
    def steps(self) -> int:
        marks = self.marks
        return (marks[-1].done - marks[0].done) // self.per_step if marks else 0

    @property
    def seconds(self) -> float:
        return self._duration(self.marks) / 1000

    def steps_until(self, at_ms: float) -> float:
        """Return the steps since the first mark, between two marks in proportion."""
        marks = self.marks
        done = 0.0
        for before, after in pairwise(marks):
            if at_ms <= before.at_ms:
                break
            share = min(1.0, (at_ms - before.at_ms) / max(1, after.at_ms - before.at_ms))
            done += share * (after.done - before.done)
        return done / self.per_step

    def spent_a_step(self) -> dict[str, float]:
        """Return what it spent the time of a step on, in seconds by kind; empty if too little is known."""
        marks = self.marks
        times = [each for each in sorted(self._spent) if marks and marks[0].at_ms <= each <= marks[-1].at_ms]
        if not times or times[-1] - times[0] < MIN_COVERAGE * 1000 * self.seconds:
            return {}
        made = self.steps_until(times[-1]) - self.steps_until(times[0])
        before, after = self._spent[times[0]], self._spent[times[-1]]
        if made < 1:
            return {}
        # A kind may lose a little to another one, once more is known.
        return {kind: max(0.0, seconds - before.get(kind, 0.0)) / made for kind, seconds in after.items()}

    def launches_a_step(self) -> dict[str, float]:
        steps = max(1, self.steps)
        return {name: (last - first) / steps for name, (first, last) in self._launches.items()}

    def samples(self, interval_s: float = 1.0) -> list[float]:
        """Return what a step took, in seconds, in parts of the time."""
        return samples_of(self.marks, interval_s, self.per_step)


def samples_of(marks: Sequence[StepMark], interval_s: float, per_step: int = 1) -> list[float]:
    """Return what a step took, in seconds, in parts of the time of about equal length."""
    steps = (marks[-1].done - marks[0].done) / per_step if marks else 0
    if steps < 1:
        return []
    whole_ms = marks[-1].at_ms - marks[0].at_ms
    uncertain_s = min(whole_ms / 1000 / steps, interval_s)
    many, few = (int(whole_ms / 1000 / max(SHORTEST_S, n * uncertain_s)) for n in (CERTAIN, HARDLY_CERTAIN))
    parts = max(1, min(MAX_SAMPLES, many), min(MIN_SAMPLES, few))
    length_ms = whole_ms / parts
    found: list[float] = []
    start = marks[0]
    for mark in marks[1:]:
        took_ms = mark.at_ms - start.at_ms
        # What is left over at the end may be too short for a sample of its own.
        is_enough = took_ms >= (length_ms / 2 if mark is marks[-1] else length_ms - ROUNDING_MS)
        if is_enough and mark.done > start.done:
            found.append(took_ms / 1000 * per_step / (mark.done - start.done))
            start = mark
    return found


def _reported(pulse: wire.Pulse) -> int | None:
    return None if pulse.step is None else pulse.step.index


class CountedSteps:
    """The steps of all processes in a stream of frames."""

    def __init__(self) -> None:
        self.by_agent: dict[str, ProcessSteps] = {}

    def feed(self, frame: wire.Frame) -> None:
        if frame.kind not in ("pulse", "ledger"):
            return
        if frame.agent not in self.by_agent and len(self.by_agent) >= MAX_PROCESSES:
            return
        process = self.by_agent.setdefault(frame.agent, ProcessSteps())
        with suppress(wire.Unreadable):
            match wire.decode(frame.kind, frame.raw):
                case wire.Pulse() as pulse:
                    process.take(pulse, frame.at)
                case wire.Ledger() as ledger:
                    process.note(ledger)

    def made_steps(self, until: float | None = None) -> list[str]:
        """Return the processes that made steps; those that still did at a time."""
        agents = [agent for agent, each in self.by_agent.items() if each.steps]
        if until is None:
            return agents
        return [agent for agent in agents if self.by_agent[agent].marks[-1].at >= until - TOGETHER_S]

    def last_step(self) -> float | None:
        """Return when the run last made steps: the first of those that stopped together; None if never."""
        ends = [self.by_agent[agent].marks[-1].at for agent in self.made_steps()]
        return min((each for each in ends if each >= max(ends) - TOGETHER_S), default=None)


def times_of(processes: Iterable[ProcessSteps], interval_s: float) -> MeasuredSteps | None:
    """Return what a step of these processes took; None if they made none."""
    listed = [each for each in processes if each.steps]
    samples = [took for each in listed for took in each.samples(interval_s)]
    if not samples:
        return None
    return MeasuredSteps(
        tuple(samples),
        round(median(each.steps for each in listed)),
        median(each.seconds for each in listed),
    )


def times_of_ledgers(processes: Iterable[ProcessLedger]) -> MeasuredSteps | None:
    """Return what a step took between the points of ledgers, or by their sums where points have no steps."""
    samples, steps, seconds = [], [], []
    for process in processes:
        if not process.steps:
            continue
        marks = [
            StepMark(each.at, round(1000 * _seconds_of_steps(each.spent)), each.steps)
            for each in process.points
            if each.steps is not None
        ]
        whole = _seconds_of_steps(process.spent)
        samples += samples_of(marks, LEDGER_EVERY_S) or [whole / process.steps]
        steps.append(process.steps)
        seconds.append(whole)
    return MeasuredSteps(tuple(samples), round(median(steps)), median(seconds)) if samples else None


def _seconds_of_steps(spent: Mapping[str, float]) -> float:
    return sum(seconds for kind, seconds in spent.items() if kind not in NOT_OF_STEPS)
