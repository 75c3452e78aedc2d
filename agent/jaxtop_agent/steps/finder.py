"""The step of a process, found in its launches."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from heapq import merge
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.steps.changes import Pauses, StepTimes
from jaxtop_agent.steps.durations import StepGap, step_times
from jaxtop_agent.steps.figures import RECENT_NS, FunctionFacts, StepCount, StepFigures, figures
from jaxtop_agent.steps.pattern import (
    COMPARED_LAUNCHES,
    SAME,
    FunctionLaunch,
    Pattern,
    find,
    find_slow,
    is_still,
    makers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# The number of steps that are remembered.
MAX_STEPS = 256
# The number of last steps from which figures are computed.
FIGURE_STEPS = 128
# After this many launches, or this time, the pattern is checked again.
VERIFY_EVERY, VERIFY_EVERY_NS = 128, 5_000_000_000
# JAX's own operations, launched one by one, make a step only if this many of them repeat for this long.
FEWEST_EAGER, EAGER_LASTS_NS = 2, 10_000_000_000
# The script may count in strides, but a longer one than this is implausible.
LONGEST_STRIDE = 10_000


class StepCall(NamedTuple):
    """A call of `agent.step()`: its time, and its step if that was a plain number."""

    at: int
    step: int | None


class StepFinder:
    """The step finder. Each look passes all remembered launches, and the calls since the last look.

    Launches that were dropped before a look, because nobody watched, are counted from the launch counters.
    """

    def __init__(self) -> None:
        self.serial = 0
        self.steps = 0
        self._pattern: Pattern | None = None
        self._is_reported = False
        # The time of the last launch that was compared with the pattern, and the facts at that comparison.
        self._verified = 0
        self._facts = FunctionFacts()
        # The candidate step of a script without functions of its own, and since when it repeats.
        self._eager: Pattern | None = None
        self._eager_since = 0
        self._restart()

    def look(
        self,
        launches: Sequence[FunctionLaunch],
        calls: Sequence[StepCall],
        facts: FunctionFacts,
        now: int,
        counts: Mapping[int, int] | None = None,
    ) -> StepFigures | None:
        """Return the current step; None while it is unknown. `counts` are the launches of each function."""
        if calls:
            if not self._is_reported:
                self._pattern, self._is_reported = None, True
                self._restart()
        elif not self._is_reported:
            if self._is_due(launches, facts, now):
                self._find_pattern(launches, facts)
            if self._pattern is None:
                return None
        before = self._gaps[-1].end if self._gaps else 0
        self._follow(launches, calls, facts.own, counts or {})
        self._notice_changes(before)
        gaps = list(self._gaps)
        paused = self._pauses.look(gaps)
        group = () if self._is_reported or self._pattern is None else self._pattern.group
        counted = self._counted_lately(now)
        found = figures(gaps[-FIGURE_STEPS:], self._began, group, facts, now, counted=counted)
        return None if found is None else found._replace(before_ns=self._before_ns, paused=paused)

    def _counted_lately(self, now: int) -> StepCount:
        """Return the steps that were counted in the last seconds, or since the rhythm changed."""
        self._counts.append(StepCount(now, self.steps))
        while self._counts[0].time_ns < now - RECENT_NS:
            self._counts.popleft()
        first = self._counts[0]
        return StepCount(now - first.time_ns, self.steps - first.steps)

    def _is_due(self, launches: Sequence[FunctionLaunch], facts: FunctionFacts, now: int) -> bool:
        """Return whether the pattern should be searched again."""
        at, before = self._verified, self._facts
        if self._pattern is None or facts is not before or now - at > VERIFY_EVERY_NS:
            return True
        return len(launches) > VERIFY_EVERY and launches[-VERIFY_EVERY].at > at

    def _find_pattern(self, launches: Sequence[FunctionLaunch], facts: FunctionFacts) -> None:
        """Find the pattern of a step, unless the launches still repeat the current one."""
        self._verified, self._facts = launches[-1].at if launches else 0, facts
        carrying = makers(launches, facts.arguments, facts.results, facts.own)
        if not carrying:
            self._find_eager(launches, facts)
            return
        newest_first = (launch for launch in reversed(launches) if launch.function in carrying)
        carried = list(islice(newest_first, COMPARED_LAUNCHES))[::-1]
        sequence = [launch.function for launch in carried]
        pattern = self._pattern
        if pattern is not None and is_still(pattern, sequence, SAME):
            return
        weights = {each: float(facts.flops.get(each) or 1) for each in carrying}
        found = find(sequence, weights) or find_slow(carried)
        # The first launches of a step may repeat on their own, as micro-steps do: what is found now is better
        # where the launches repeat it, and hardly the present pattern.
        is_better = found is not None and is_still(found, sequence, SAME)
        if pattern is None or is_better or not is_still(pattern, sequence):
            self._change(found)

    def _find_eager(self, launches: Sequence[FunctionLaunch], facts: FunctionFacts) -> None:
        """Find a step of only JAX's own operations. It must last, because initialisations look the same.

        If functions of the script were ever launched, those make the step, although they are no longer
        remembered.
        """
        if facts.has_functions:
            return
        sequence = [launch.function for launch in launches[-COMPARED_LAUNCHES:]]
        if self._pattern is not None and is_still(self._pattern, sequence):
            return
        self._change(None)
        if self._eager is None or not is_still(self._eager, sequence):
            self._eager = find(sequence, {})
            self._eager_since = launches[0].at if launches else 0
        found = self._eager
        if found is None or len(found.group) < FEWEST_EAGER:
            return
        if launches[-1].at - self._eager_since >= EAGER_LASTS_NS:
            self._change(found)

    def _change(self, found: Pattern | None) -> None:
        if found != self._pattern:
            self._pattern = found
            self._restart()

    def _restart(self) -> None:
        self.serial += 1
        self.steps = 0
        self._gaps: deque[StepGap] = deque(maxlen=MAX_STEPS)
        self._counts: deque[StepCount] = deque()
        self._pauses = Pauses()
        self._before_ns: float | None = None
        self._seen = 0
        self._closed: StepCall | None = None
        self._began = 0
        # The launches of the closing function: since the last step, and all that were counted. Then whether
        # the step under way began before launches that were dropped.
        self._closers = self._counted = 0
        self._began_before_drop = False
        self._launched: dict[int, int] = {}
        self._first: dict[int, int] = {}

    def _notice_changes(self, looked_until: int) -> None:
        """Forget the gaps of an earlier rhythm: figures of steps mix no two.

        A change shows only while few steps have followed it, so this looks back at every new step. Among
        gaps of mere launching, waits for the device would look like another rhythm: there only the last step
        counts.
        """
        gaps = list(self._gaps)
        new = sum(gap.end > looked_until for gap in gaps)
        steps = StepTimes([gap.duration / gap.steps for gap in gaps])
        if not steps.may_change(new):
            return
        start, stride = 0, steps.stride()
        for end in range(len(gaps) - (new - 1) // stride * stride, len(gaps) + 1, stride):
            if end < len(gaps) and not steps.are_timed(start, end):
                continue
            first = steps.changed_at(start, end)
            if first is not None:
                earlier = gaps[start:first]
                self._before_ns = fmean(each.duration for each in step_times(earlier, None))
                self._began = earlier[-1].end
                start = first
        if start:
            self._gaps = deque(gaps[start:], maxlen=MAX_STEPS)
            self._counts.clear()
            self._pauses = Pauses()

    def _follow(
        self,
        launches: Sequence[FunctionLaunch],
        calls: Sequence[StepCall],
        own: frozenset[int],
        counts: Mapping[int, int],
    ) -> None:
        if launches and launches[0].at > self._seen:  # launches were dropped before this look, or may be
            self._closed = None
            self._count_dropped(launches, own, counts)
        hidden = own if self._pattern is None or own.isdisjoint(self._pattern.group) else frozenset()
        new = launches[bisect_right(launches, self._seen, key=lambda each: each.at) :]
        self._seen = launches[-1].at if launches else self._seen
        both: Iterable[FunctionLaunch | StepCall] = new
        if calls:
            both = merge(new, calls, key=lambda each: each.at)
        for each in both:
            if isinstance(each, StepCall):
                self._close(each)
            elif each.function not in hidden:
                if self._closed is not None:
                    self._first.setdefault(each.function, each.at - self._closed.at)
                    self._launched[each.function] = self._launched.get(each.function, 0) + 1
                self._count(each)

    def _count_dropped(
        self, launches: Sequence[FunctionLaunch], own: frozenset[int], counts: Mapping[int, int]
    ) -> None:
        """Count the steps of which only the launch counter of the closing function is left."""
        pattern, is_first = self._pattern, not self._seen
        if pattern is None:
            return
        remembered = sum(launch.function == pattern.closer for launch in launches)
        dropped = max(0, counts.get(pattern.closer, 0) - self._counted - remembered)
        self._counted += dropped
        # A first call is counted, but never remembered. Initialisations use JAX's own functions, too.
        if dropped <= is_first or (is_first and pattern.closer in own):
            return
        steps, self._closers = divmod(self._closers + dropped, pattern.times)
        self.steps += steps
        self._began_before_drop = True

    def _count(self, launch: FunctionLaunch) -> None:
        pattern = self._pattern
        if pattern is None or launch.function != pattern.closer:
            return
        self._counted += 1
        self._closers += 1
        if self._closers >= pattern.times:
            self._closers = 0
            self._close(StepCall(launch.at, None))

    def _close(self, now: StepCall) -> None:
        before, self._closed = self._closed, now
        launched, first, self._launched, self._first = self._launched, self._first, {}, {}
        if before is None:
            self.steps += self._began_before_drop
            self._began_before_drop = False
            self._began = self._began or now.at
            return
        stride = 1
        if before.step is not None and now.step is not None:
            stride = now.step - before.step
        if not 0 < stride <= LONGEST_STRIDE:
            return
        self.steps += stride
        functions = frozenset(launched)
        if self._gaps and self._gaps[-1].functions == functions:
            functions = self._gaps[-1].functions  # the same object is counted several times as fast
        self._gaps.append(StepGap(now.at, now.at - before.at, stride, launched, first, functions))
