"""Attributes each moment of the process to one kind of `SPENT_ON`; time is an argument.

The time between two launches is a gap. What hooks measured in it is known exactly: compilations, garbage
collections, phases that the script named, and checkpoints that Orbax reported. For the rest there are samples
of the main thread. In a gap of usual length the samples of many such gaps are put together, each at its place
in its gap: so a few of them measure a wait of 30 ms in each step. In a longer gap its own samples say what
the time beyond the usual was spent on.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING

from jaxtop_agent.ledger.pieces import CLOSING, IN_JAX, IN_SCRIPT, Seconds, Sighting, Span, cut, nearest
from jaxtop_agent.ledger.usual_gaps import GapSample, UsualGaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop_agent.ledger.pieces import LaunchAt

# A long gap is at least this many times as long as the usual one.
LONG_GAP_FACTOR = 3.0
# A long gap is at least this many seconds longer than the usual one.
LONG_GAP_EXCESS_S = 0.1
# A time in JAX without launches is a stall from this many seconds on, if it is also this many times as long
# as the usual gap.
STALL_S, STALL = 5.0, 6.0
# Before steps are known, a longer time in JAX than this is what the script launched, if it begins this soon
# after a launch: a program may have all steps in a single launch.
ALONE_S, AFTER_S = 5.0, 1.0
MOST_POOLS = 64
# What has passed of an open gap is attributed each time this many seconds have passed, so that nothing about
# it has to be kept.
OPEN_S = 300.0


class Account:
    """The sums of one process. `close` attributes what has passed; `spent` adds what is still open."""

    def __init__(self, started: float) -> None:
        self._closed = started
        self._sums = Seconds()
        self._pools: dict[tuple[int, int], UsualGaps] = {}
        self._beyond = Seconds()  # what long gaps with samples were spent on
        self._last: LaunchAt | None = None
        self._script_launched: float | None = None  # when the script last launched one of its own functions
        self._samples: list[Sighting] = []
        # In the order of their starts, and how many of them are before the gap that is being closed.
        self._spans: list[Span] = []
        self._passed = 0
        self._steps_since: float | None = None
        # The seconds of gaps before launches of each function.
        self._before_launch: dict[int, float] = defaultdict(float)
        self.saved: list[tuple[float, float]] = []  # blocking saves that samples or spans showed

    @property
    def closed(self) -> float:
        """The time up to which everything is attributed."""
        return self._closed

    @property
    def main_function(self) -> int | None:
        """The function before whose launches most of the steps' time passes; None before the first step."""
        return max(self._before_launch, key=self._before_launch.__getitem__, default=None)

    def steps_began(self, at: float) -> None:
        """Note that steps are launched from this time on: what came before it was the start."""
        if self._steps_since is None:
            self._steps_since = at

    def note(self, samples: Iterable[Sighting] = (), spans: Iterable[Span] = ()) -> None:
        self._samples.extend(samples)
        self._spans = sorted((*self._spans, *spans), key=lambda each: each.start)

    def close(
        self, launches: Sequence[LaunchAt], now: float, *, is_whole: bool = True, is_stuck: bool = False
    ) -> None:
        """Attribute the time up to the last of these launches; of a gap that stays open, what is old.

        Launches before the first of them were lost, unless the list `is_whole`: their gaps are as usual.
        """
        if launches and not is_whole and self._last is not None and launches[0].at > self._closed:
            self._pass_over(launches[0])
        self._close_gaps(launches)
        if now - self._closed > OPEN_S:
            found = self._open(now, is_stuck=is_stuck, is_over=False)
            self._sums.add(found)
            self._closed = now
            if self._steps_since is None and found["stepping"]:
                self._script_launched = now  # what it launched still runs
        self._forget()

    def spent(self, now: float, *, is_stuck: bool = False, is_over: bool = False) -> dict[str, float]:
        """Return the seconds by kind up to now; they sum up to the time since the start."""
        found = Seconds(self._sums)
        for pool in self._pools.values():
            attributed = pool.spent()
            found.add(attributed)
            found["stepping"] += pool.seconds - sum(attributed.values())
        found.add(self._open(now, is_stuck=is_stuck, is_over=is_over))
        return {kind: seconds for kind, seconds in found.items() if seconds > 0}

    def finish(self, now: float) -> None:
        """Note what only the end of the script shows: a save after the last launch; all shares are exact."""
        for pool in self._pools.values():
            pool.find_shares_anew()
        samples = self._samples_between(self._closed, now)
        seconds = nearest([(self._closed, now)], samples, IN_JAX)["saving"]
        self._note_saved(self._closed, samples, seconds)

    # One gap

    def _pass_over(self, launch: LaunchAt) -> None:
        assert self._last is not None
        left = sum(end - start for start, end in self._without_spans(self._closed, launch.at))
        self._pool_of(self._last, launch).seconds += left
        self._closed, self._last = launch.at, launch

    def _pool_of(self, before: LaunchAt, launch: LaunchAt) -> UsualGaps:
        key = before.function, launch.function
        pool = self._pools.get(key)
        if pool is None:
            key = key if len(self._pools) < MOST_POOLS else (-1, -1)
            pool = self._pools.setdefault(key, UsualGaps())
        return pool

    def _close_gaps(self, launches: Iterable[LaunchAt]) -> None:
        """Close the gaps before launches; a fast script makes thousands that are short and empty."""
        since = math.inf if self._steps_since is None else self._steps_since
        seen, i = self._samples, 0
        spans_start = min((each.start for each in self._spans), default=math.inf)
        spans_end = max((each.end for each in self._spans), default=-math.inf)
        for launch in launches:
            start, end, before = self._closed, launch.at, self._last
            if end <= start:
                continue
            while i < len(seen) and seen[i].at < start:
                i += 1
            while self._passed < len(self._spans) and self._spans[self._passed].end <= start:
                self._passed += 1
            is_short = (
                end - start <= LONG_GAP_EXCESS_S
                and before is not None
                and end > since
                and not launch.evaluates
            )
            is_empty = (i == len(seen) or seen[i].at > end) and (end <= spans_start or start >= spans_end)
            if not (is_short and is_empty):
                self._close_gap(launch)
                continue
            assert before is not None
            length = end - start
            pool = self._pool_of(before, launch)
            pool.add(length)
            pool.seconds += length
            self._before_launch[launch.function] += length
            self._closed, self._last = end, launch
            if not launch.is_jaxs:
                self._script_launched = end

    def _close_gap(self, launch: LaunchAt) -> None:
        start, end, before = self._closed, launch.at, self._last
        self._closed, self._last = end, launch
        free = self._without_spans(start, end)
        left = sum(stop - begin for begin, stop in free)
        if self._steps_since is None or end <= self._steps_since or before is None:
            self._sums.add(self._spent_by_samples(free, self._in_jax_at_first(free, start), "starting"))
        elif launch.evaluates:
            self._sums.add(self._spent_by_samples(free, "evaluating", "evaluating"))
        else:
            self._close_step_gap(before, launch, start, free, left)
        if not (launch.evaluates or launch.is_jaxs):
            self._script_launched = end

    def _in_jax_at_first(self, free: list[tuple[float, float]], start: float) -> str:
        """Return what a time in JAX is, from `start` on, before steps are known."""
        launched = self._script_launched
        if launched is None or start - launched > AFTER_S:
            return "starting"
        in_jax = nearest(free, self._seen_in(free), IN_SCRIPT)[IN_JAX]
        return "stepping" if in_jax > ALONE_S else "starting"

    def _close_step_gap(
        self, before: LaunchAt, launch: LaunchAt, start: float, free: list[tuple[float, float]], left: float
    ) -> None:
        pool = self._pool_of(before, launch)
        usual = pool.usual
        samples = self._seen_in(free)
        holds_up = usual is not None and left > usual + LONG_GAP_EXCESS_S and _holds_up(samples)
        if holds_up or self._is_long(left, usual, samples):
            regular = min(left, usual or 0.0)
            self._beyond_usual(free, samples, left - regular, usual or 0.0, pool.usual_kinds)
        else:
            regular = left
            length = launch.at - start
            pool.add(left, (GapSample(each.at - start, length, each.kind) for each in samples))
        pool.seconds += regular
        self._before_launch[launch.function] += left
        if pool.is_whole:
            self._finish(pool)

    @staticmethod
    def _is_long(left: float, usual: float | None, samples: list[Sighting]) -> bool:
        """Whether a gap is long enough that its time beyond the usual has another cause."""
        if usual is not None:
            return left > max(LONG_GAP_FACTOR * usual, usual + LONG_GAP_EXCESS_S)
        return left > LONG_GAP_EXCESS_S and any(each.kind not in (IN_JAX, IN_SCRIPT) for each in samples)

    def _finish(self, pool: UsualGaps) -> None:
        spent = pool.spent()
        self._sums.add(spent)
        self._sums["stepping"] += pool.seconds - sum(spent.values())
        pool.finish()

    def _beyond_usual(
        self,
        free: list[tuple[float, float]],
        samples: list[Sighting],
        beyond: float,
        usual: float,
        usual_kinds: frozenset[str],
    ) -> None:
        """Attribute the time of a long gap beyond the usual one.

        What usual gaps have, too, is in the usual part, unless the samples show nothing else.
        """
        lengths = nearest(free, samples, IN_JAX)
        kinds = {kind: each for kind, each in lengths.items() if kind not in (IN_JAX, IN_SCRIPT)}
        kinds = {kind: each for kind, each in kinds.items() if kind not in usual_kinds} or kinds
        unknown = sum(lengths.values()) - sum(kinds.values())
        if not samples:
            total = sum(self._beyond.values())
            for kind, seconds in self._beyond.items():
                self._sums[kind] += beyond * seconds / total
            self._sums["stepping"] += 0.0 if total else beyond
            return
        found = Seconds()
        if kinds:
            # Samples come at random times, so the edges of what they saw are known up to their distance.
            spacing = sum(stop - start for start, stop in free) / len(samples)
            rest = 0.0 if unknown <= usual + 2 * spacing else min(beyond, unknown - usual)
            known = sum(kinds.values())
            for kind, seconds in kinds.items():
                found[kind] += (beyond - rest) * seconds / known
            beyond = rest
        if beyond > 0:
            found[self._unknown_kind(lengths, beyond, usual)] += beyond
        self._sums.add(found)
        self._beyond.add(found)
        self._note_saved(free[0][0], samples, found["saving"])

    def _note_saved(self, start: float, samples: Sequence[Sighting], seconds: float) -> None:
        """Note a save in a gap that began at `start`, if samples saw one."""
        seen = [each.at for each in samples if each.kind == "saving"]
        if seen and seconds > 0:
            # The first sample comes at any time of the save: on average half the distance of samples late.
            spacing = (samples[-1].at - samples[0].at) / len(samples)
            self.saved.append((max(start, seen[0] - spacing / 2), seconds))

    @staticmethod
    def _unknown_kind(lengths: Seconds, beyond: float, usual: float) -> str:
        if lengths[IN_SCRIPT] > lengths[IN_JAX]:
            return "other"
        return "stalled" if beyond > max(STALL_S, STALL * usual) else "stepping"

    # The open gap

    def _open(self, now: float, *, is_stuck: bool, is_over: bool) -> Seconds:
        if now <= self._closed:
            return Seconds()
        free = self._without_spans(self._closed, now, counts=False)
        found = Seconds()
        for span, seconds in self._spans_in(self._closed, now):
            found[span.kind] += seconds
        left = sum(stop - start for start, stop in free)
        if self._steps_since is None:
            in_jax, in_script = self._in_jax_at_first(free, self._closed), "starting"
        elif is_over:
            in_jax = in_script = "ending"
        elif is_stuck:
            in_jax = in_script = "stalled"
        else:
            in_jax, in_script = "stepping", "other" if left > STALL_S else "stepping"
        found.add(self._spent_by_samples(free, in_jax, in_script, "ending" if is_over else "input"))
        return found

    def _spent_by_samples(
        self, free: list[tuple[float, float]], in_jax: str, in_script: str, closing: str = "input"
    ) -> Seconds:
        samples = self._seen_in(free, closing)
        found = nearest(free, samples, IN_JAX)
        found[in_jax] += found.pop(IN_JAX, 0.0)
        found[in_script] += found.pop(IN_SCRIPT, 0.0)
        return found

    # Spans and samples

    def _seen_in(self, free: list[tuple[float, float]], closing: str = "input") -> list[Sighting]:
        """Return the samples of pieces of time; those between them are explained already."""
        seen = [sample for start, end in free for sample in self._samples_between(start, end)]
        return [each._replace(kind=closing) if each.kind == CLOSING else each for each in seen]

    def _samples_between(self, start: float, end: float) -> list[Sighting]:
        low = bisect_left(self._samples, start, key=lambda each: each.at)
        high = bisect_right(self._samples, end, key=lambda each: each.at)
        return self._samples[low:high]

    def _spans_between(self, start: float, end: float) -> list[Span]:
        high = bisect_left(self._spans, end, key=lambda each: each.start)
        return [each for each in self._spans[self._passed : high] if each.end > start]

    def _spans_in(self, start: float, end: float) -> list[tuple[Span, float]]:
        """Return the spans within a time, with the seconds that belong to each: the inner one wins."""
        found, taken = [], list[tuple[float, float]]()
        for span in sorted(self._spans_between(start, end), key=lambda each: (each.source, -each.start)):
            begin, stop = max(start, span.start), min(end, span.end)
            if begin < stop:
                own = cut([(begin, stop)], taken)
                found.append((span, sum(high - low for low, high in own)))
                taken += own
        return found

    def _without_spans(self, start: float, end: float, *, counts: bool = True) -> list[tuple[float, float]]:
        """Return what no span covers of a time; what one covers is added to the sums if it `counts`."""
        inside = self._spans_between(start, end)
        if not inside:
            return [(start, end)]
        if counts:
            for span, seconds in self._spans_in(start, end):
                self._sums[span.kind] += seconds
        return cut([(start, end)], [(each.start, each.end) for each in inside])

    def _forget(self) -> None:
        self._spans, self._passed = [each for each in self._spans if each.end > self._closed], 0
        del self._samples[: bisect_right(self._samples, self._closed, key=lambda each: each.at)]


def _holds_up(samples: list[Sighting]) -> bool:
    """Whether samples saw a checkpoint, which no step has."""
    return any(each.kind in ("saving", "restoring") for each in samples)
