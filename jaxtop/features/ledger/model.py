"""The hours of a job: its attempts, the time of each process by kind, and the time that was lost.

An attempt is one start of a run with all its processes. What an attempt did since its last checkpoint was
done again by the next one: that time is lost, whatever it was spent on. Between the two, nothing ran.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.wall_time.time_spent import PRODUCTIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop.model.series import Point
    from jaxtop.wire import InputQueue, Save

# What is added to the kinds of processes: what was done again, and the time between two attempts.
LOST, DOWN = "lost", "down"
# In the order in which they are shown: from what moves the training forward to what does not.
KINDS = (
    "stepping", "evaluating", "saving", "restoring", "compiling", "cached", "starting", "input", "garbage",
    "stalled", "lost", "down", "ending", "other",
)  # fmt: skip
# What each kind is in words.
WORDS = {
    "stepping": "steps",
    "evaluating": "evaluation",
    "saving": "saving checkpoints",
    "restoring": "restoring",
    "compiling": "compiling",
    "cached": "programs from a cache",
    "starting": "starting",
    "input": "waiting for input",
    "garbage": "garbage collection",
    "stalled": "stalled",
    "lost": "done again",
    "down": "between attempts",
    "ending": "after the last launch",
    "other": "other",
}
# A process ended first if it was last heard this many seconds before the last process of its attempt.
FIRST_BY_S = 30.0


class TimeSpent(NamedTuple):
    """What a process had spent up to a time, in seconds by kind, and its steps by then; None if unknown."""

    at: float
    spent: Mapping[str, float]
    steps: int | None = None

    def seconds_of(self, kind: str) -> float:
        return self.spent.get(kind, 0.0)


class ProcessLedger(NamedTuple):
    """What one process spent its time on: the last of its points has the sums.

    `end` says how it ended: "ended", or empty while it runs and where it died. `error` is the exception that
    ended it. `queue` is the one from which it takes its input at present; None if it was not seen.
    """

    agent: str
    hostname: str
    process_index: int | None
    devices: int
    started: float
    points: tuple[TimeSpent, ...]
    steps: int | None = None
    saves: tuple[Save, ...] = ()
    end: str = ""
    error: str = ""
    queue: InputQueue | None = None

    @property
    def label(self) -> str:
        index = "" if self.process_index is None else f"process {self.process_index} on "
        return f"{index}{self.hostname}"

    @property
    def until(self) -> float:
        return self.points[-1].at if self.points else self.started

    @property
    def spent(self) -> Mapping[str, float]:
        return self.points[-1].spent if self.points else MappingProxyType({})

    def at(self, at: float) -> Mapping[str, float]:
        """Return what it had spent up to a time, between two points in proportion."""
        before = TimeSpent(self.started, {})
        for point in self.points:
            if point.at >= at:
                share = (at - before.at) / (point.at - before.at) if point.at > before.at else 1.0
                kinds = {*before.spent, *point.spent}
                share = min(1.0, max(0.0, share))
                return {
                    kind: before.seconds_of(kind) + share * (point.seconds_of(kind) - before.seconds_of(kind))
                    for kind in kinds
                }
            before = point
        return before.spent

    def between(self, low: float, high: float) -> dict[str, float]:
        """Return the device-seconds by kind between two times."""
        before, after = self.at(low), self.at(high)
        found = {kind: (seconds - before.get(kind, 0.0)) for kind, seconds in after.items()}
        return {kind: seconds * max(1, self.devices) for kind, seconds in found.items() if seconds > 0}


class Attempt(NamedTuple):
    """One start of a run: its processes."""

    run: str
    name: str
    processes: tuple[ProcessLedger, ...]

    @property
    def started(self) -> float:
        return min(each.started for each in self.processes)

    @property
    def until(self) -> float:
        return max(each.until for each in self.processes)

    @property
    def devices(self) -> int:
        return sum(max(1, each.devices) for each in self.processes)

    @property
    def steps(self) -> int | None:
        return max((each.steps for each in self.processes if each.steps is not None), default=None)

    @property
    def committed(self) -> Save | None:
        """The last checkpoint that is known to be complete, of any process."""
        found = [save for each in self.processes for save in each.saves if save.committed_ms is not None]
        return max(found, key=lambda each: each.at_ms, default=None)

    def spent(self) -> dict[str, float]:
        """Return device-seconds by kind."""
        found: dict[str, float] = defaultdict(float)
        for each in self.processes:
            for kind, seconds in each.spent.items():
                found[kind] += seconds * max(1, each.devices)
        return found

    @property
    def safe_until(self) -> float | None:
        """The time up to which its work was in a complete checkpoint; None if none was seen."""
        committed = self.committed
        return None if committed is None else (committed.at_ms + committed.blocked_ms) / 1000

    def since_commit(self) -> Mapping[str, float] | None:
        """Return the device-seconds by kind since then, which are lost if it ends now."""
        since = self.safe_until
        if since is None:
            return None
        found: dict[str, float] = defaultdict(float)
        for each in self.processes:
            for kind, seconds in each.between(since, each.until).items():
                found[kind] += seconds
        return found

    @property
    def ending(self) -> str:
        """How it ended, in a few words; empty if nothing says that it has."""
        errors = [each.error for each in self.processes if each.error]
        if errors:
            return errors[0]
        return "ended" if all(each.end for each in self.processes) else ""

    def first_to_end(self) -> list[ProcessLedger]:
        """Return the processes that raised, or else those whose entries end before those of the others."""
        raised = [each for each in self.processes if each.error]
        if raised:
            return raised
        stopped = [each for each in self.processes if not each.end and self.until - each.until >= FIRST_BY_S]
        first = min((each.until for each in stopped), default=0.0)
        return [each for each in stopped if each.until <= first + FIRST_BY_S]


class StepParts(NamedTuple):
    """Where the steps of a run went, as shares of their time, over its last `seconds`."""

    shares: Mapping[str, float]
    seconds: float


class JobLedger:
    """The attempts at one job, in the order of their starts, and their sum.

    `step_parts` says where its steps went, as far as a viewer or a recording has seen it: processes alone do
    not know for whom they wait. `scalars` is what the script reports over time, known from there as well.
    """

    def __init__(
        self,
        name: str,
        attempts: Iterable[Attempt],
        step_parts: StepParts | None = None,
        scalars: Mapping[str, Sequence[Point]] | None = None,
    ) -> None:
        self.name = name
        self.step_parts = step_parts
        self.scalars = scalars or {}
        self.attempts = tuple(sorted(attempts, key=lambda each: each.started))

    @cached_property
    def spent(self) -> Mapping[str, float]:
        """Device-seconds by kind, with what was lost; they sum up to `total`."""
        found: dict[str, float] = defaultdict(float)
        for attempt in self.attempts:
            for kind, seconds in attempt.spent().items():
                found[kind] += seconds
        for before, after in pairwise(self.attempts):
            for kind, seconds in (before.since_commit() or {}).items():
                found[kind] -= seconds
                found[LOST] += seconds
            found[DOWN] += max(0.0, after.started - before.until) * after.devices
        return {kind: found[kind] for kind in KINDS if found[kind] > 0}

    @property
    def total(self) -> float:
        return sum(self.spent.values())

    @property
    def goodput(self) -> float | None:
        """The share of the device-hours that moved the training forward; None before there are any."""
        return self.spent.get(PRODUCTIVE, 0.0) / self.total if self.total else None

    @property
    def unknown_losses(self) -> int:
        """How many restarts there are after which it is unknown from which step on work was done again."""
        return sum(before.committed is None for before in self.attempts[:-1])

    @property
    def started(self) -> float:
        return self.attempts[0].started

    @property
    def until(self) -> float:
        return max(each.until for each in self.attempts)

    @property
    def steps(self) -> int | None:
        return self.attempts[-1].steps

    def culprits(self) -> list[tuple[str, int]]:
        """Return the hosts with which several attempts ended, and how many, the most first."""
        seen: Counter[str] = Counter()
        for attempt in self.attempts:
            if attempt.ending != "ended":
                seen.update({each.hostname for each in attempt.first_to_end()})
        return [(host, times) for host, times in seen.most_common() if times > 1]

    def over_time(self, columns: int) -> Sequence[Mapping[str, float]]:
        """Return the device-seconds by kind for each of `columns` equal parts of the job's time."""
        edges = [self.started + (self.until - self.started) * i / columns for i in range(columns + 1)]
        found: list[dict[str, float]] = [defaultdict(float) for _ in range(columns)]
        for attempt in self.attempts:
            for each in attempt.processes:
                _spread(each, edges, found)
        for before, after in pairwise(self.attempts):
            _mark_lost(before, edges, found)
            for i, (start, end) in enumerate(pairwise(edges)):
                overlap = min(end, after.started) - max(start, before.until)
                if overlap > 0:
                    found[i][DOWN] += overlap * after.devices
        return found


def _spread(process: ProcessLedger, edges: Sequence[float], found: list[dict[str, float]]) -> None:
    before: Mapping[str, float] = MappingProxyType({})
    for i, end in enumerate(edges[1:]):
        if edges[i] > process.until or end < process.started:
            continue
        after = process.at(end)
        for kind, seconds in after.items():
            found[i][kind] += (seconds - before.get(kind, 0.0)) * max(1, process.devices)
        before = after


def _mark_lost(attempt: Attempt, edges: Sequence[float], found: list[dict[str, float]]) -> None:
    since = attempt.safe_until
    if since is None:
        return
    for i, (start, end) in enumerate(pairwise(edges)):
        low, high = max(start, since), min(end, attempt.until)
        if low >= high:
            continue
        for each in attempt.processes:
            for kind, seconds in each.between(low, high).items():
                found[i][kind] -= seconds
                found[i][LOST] += seconds
