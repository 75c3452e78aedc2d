"""The step of a process, found in its launches."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from heapq import merge
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from jaxtop_agent.steps.durations import Gap, from_wait_to_wait, launches_a_step, step_times
from jaxtop_agent.steps.pattern import COMPARED, Launch, Pattern, find, find_slow, is_still, makers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# The steps that are remembered. Current figures cover the last seconds, but at least this many steps.
REMEMBERED = 256
RECENT_NS, FEWEST = 10_000_000_000, 20
# After this many launches, or this time, the pattern is checked again.
VERIFY_EVERY, VERIFY_EVERY_NS = 128, 5_000_000_000
# Within less time than this, all launches may run ahead of the device, and say nothing about step durations.
SHORTEST_SIGHT_NS = 100_000_000
# Percentiles need at least this many steps.
FEWEST_FOR_PERCENTILES = 5
# JAX's own operations, launched one by one, make a step only if this many of them repeat for this long.
FEWEST_EAGER, EAGER_LASTS_NS = 2, 10_000_000_000
# The script may count in strides, but a longer one than this is implausible.
LONGEST_STRIDE = 10_000


T = TypeVar("T", Launch, "Call")


class Call(NamedTuple):
    """A call of `agent.step()`: its time, and its step if that was a plain number."""

    at: int
    step: int | None


@dataclass(frozen=True)
class Facts:
    """The known facts about functions, by function number.

    `arguments` and `results` are the bytes that a launch takes and returns. `flops` are its operations on all
    devices of the process together, a lower bound for the functions in `at_least`. `own` are JAX's own
    functions, and `has_functions` is true if any function of the script was ever launched. `device_ns` is the
    duration of a launch on the device, if the profiler measured it.
    """

    arguments: Mapping[int, int | None] = field(default_factory=dict)
    results: Mapping[int, int | None] = field(default_factory=dict)
    flops: Mapping[int, int | None] = field(default_factory=dict)
    at_least: frozenset[int] = frozenset()
    own: frozenset[int] = frozenset()
    has_functions: bool = False
    device_ns: Mapping[int, int] = field(default_factory=dict)


class StepFigures(NamedTuple):
    """The step: its functions and its durations. The percentiles are over `samples` steps."""

    functions: tuple[int, ...]
    is_told: bool
    launches: float
    mean_ns: float | None
    per_second: float | None
    samples: int
    p50_ns: float | None
    p90_ns: float | None
    p99_ns: float | None
    flops: float | None
    flops_at_least: bool = False


class Steps:
    """The step finder. Each look passes all remembered launches; their times show which are new.

    Launches that were dropped before a look, because nobody watched, are counted from the launch counters.
    """

    def __init__(self) -> None:
        self.serial = 0
        self.steps = 0
        self._pattern: Pattern | None = None
        self._is_told = False
        # The time of the last launch that was compared with the pattern, and the facts at that comparison.
        self._verified = 0
        self._facts = Facts()
        # The candidate step of a script without functions of its own, and since when it repeats.
        self._eager: Pattern | None = None
        self._eager_since = 0
        self._start_anew()

    def look(
        self,
        launches: Sequence[Launch],
        calls: Sequence[Call],
        facts: Facts,
        now: int,
        counts: Mapping[int, int] | None = None,
    ) -> StepFigures | None:
        """Return the current step; None while it is unknown. `counts` are the launches of each function."""
        if calls:
            if not self._is_told:
                self._pattern, self._is_told = None, True
                self._start_anew()
        elif not self._is_told:
            if self._is_due(launches, facts, now):
                self._find_pattern(launches, facts)
            if self._pattern is None:
                return None
        self._follow(launches, calls, facts.own, counts or {})
        return self._tell(facts, now)

    def _is_due(self, launches: Sequence[Launch], facts: Facts, now: int) -> bool:
        """Return whether the pattern should be searched again."""
        at, before = self._verified, self._facts
        if self._pattern is None or facts is not before or now - at > VERIFY_EVERY_NS:
            return True
        return len(launches) > VERIFY_EVERY and launches[-VERIFY_EVERY].at > at

    def _find_pattern(self, launches: Sequence[Launch], facts: Facts) -> None:
        """Find the pattern of a step, unless the launches still repeat the current one."""
        self._verified, self._facts = launches[-1].at if launches else 0, facts
        carrying = makers(launches, facts.arguments, facts.results, facts.own)
        if not carrying:
            self._find_eager(launches, facts)
            return
        carried = [launch for launch in launches if launch.function in carrying][-COMPARED:]
        sequence = [launch.function for launch in carried]
        if self._pattern is None or not is_still(self._pattern, sequence):
            weights = {each: float(facts.flops.get(each) or 1) for each in carrying}
            self._change(find(sequence, weights) or find_slow(carried))

    def _find_eager(self, launches: Sequence[Launch], facts: Facts) -> None:
        """Find a step of only JAX's own operations. It must last, because initializations look the same.

        If functions of the script were ever launched, those make the step, although they are no longer
        remembered.
        """
        if facts.has_functions:
            return
        sequence = [launch.function for launch in launches[-COMPARED:]]
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
            self._start_anew()

    def _start_anew(self) -> None:
        self.serial += 1
        self.steps = 0
        self._gaps: deque[Gap] = deque(maxlen=REMEMBERED)
        self._seen = self._seen_calls = 0
        self._closed: Call | None = None
        self._began = 0
        # The launches of the closing function: since the last step, and all that were counted. Then whether
        # the step under way began before launches that were dropped.
        self._closers = self._counted = 0
        self._began_before_drop = False
        self._launched: dict[int, int] = {}
        self._first: dict[int, int] = {}

    def _follow(
        self,
        launches: Sequence[Launch],
        calls: Sequence[Call],
        own: frozenset[int],
        counts: Mapping[int, int],
    ) -> None:
        if launches and launches[0].at > self._seen:  # launches were dropped before this look, or may be
            self._closed = None
            self._count_dropped(launches, own, counts)
        hidden = own if self._pattern is None or own.isdisjoint(self._pattern.group) else frozenset()
        new = _after(launches, self._seen), _after(calls, self._seen_calls)
        self._seen = launches[-1].at if launches else self._seen
        self._seen_calls = calls[-1].at if calls else self._seen_calls
        streams: Iterable[Launch | Call] = merge(*new, key=lambda each: each.at)
        for each in streams:
            if isinstance(each, Call):
                self._close(each)
            elif each.function not in hidden:
                if self._closed is not None:
                    self._first.setdefault(each.function, each.at - self._closed.at)
                    self._launched[each.function] = self._launched.get(each.function, 0) + 1
                self._count(each)

    def _count_dropped(
        self, launches: Sequence[Launch], own: frozenset[int], counts: Mapping[int, int]
    ) -> None:
        """Count the steps of which only the launch counter of the closing function is left."""
        pattern, is_first = self._pattern, not self._seen
        if pattern is None:
            return
        remembered = sum(launch.function == pattern.closer for launch in launches)
        dropped = max(0, counts.get(pattern.closer, 0) - self._counted - remembered)
        self._counted += dropped
        # A first call is counted, but never remembered. Initializations use JAX's own functions, too.
        if dropped <= is_first or (is_first and pattern.closer in own):
            return
        steps, self._closers = divmod(self._closers + dropped, pattern.times)
        self.steps += steps
        self._began_before_drop = True

    def _count(self, launch: Launch) -> None:
        pattern = self._pattern
        if pattern is None or launch.function != pattern.closer:
            return
        self._counted += 1
        self._closers += 1
        if self._closers >= pattern.times:
            self._closers = 0
            self._close(Call(launch.at, None))

    def _close(self, now: Call) -> None:
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
        self._gaps.append(Gap(now.at, now.at - before.at, stride, launched, first))

    def _tell(self, facts: Facts, now: int) -> StepFigures | None:
        gaps = list(self._gaps)
        if not gaps or gaps[-1].end - self._began < SHORTEST_SIGHT_NS:
            return None
        often = launches_a_step(gaps)
        durations = step_times(gaps, _on_device(often, facts.device_ns))
        latest = [took for end, took in durations if end > gaps[-1].end - RECENT_NS]
        if len(latest) < FEWEST:
            latest = [took for _, took in durations[-FEWEST:]]
        all_of_them = [took for _, took in durations]
        has_enough = len(all_of_them) >= FEWEST_FOR_PERCENTILES
        cuts = quantiles(all_of_them, n=100, method="inclusive") if has_enough else []
        return StepFigures(
            functions=() if self._is_told or self._pattern is None else self._pattern.group,
            is_told=self._is_told,
            launches=sum(often.values()),
            mean_ns=fmean(latest) if latest else None,
            per_second=_pace(gaps, now),
            samples=len(all_of_them),
            p50_ns=cuts[49] if cuts else None,
            p90_ns=cuts[89] if cuts else None,
            p99_ns=cuts[98] if cuts else None,
            flops=_flops(often, facts),
            flops_at_least=any(each in facts.at_least or facts.flops.get(each) is None for each in often),
        )


def _after(what: Sequence[T], at: int) -> Sequence[T]:
    return what[bisect_right(what, at, key=lambda each: each.at) :]


def _on_device(often: Mapping[int, float], device_ns: Mapping[int, int]) -> int | None:
    known = [times * device_ns[each] for each, times in often.items() if each in device_ns]
    return round(sum(known)) if known else None


def _flops(often: Mapping[int, float], facts: Facts) -> float | None:
    """Return the operations of a step; None if those of one of the script's functions are unknown."""
    total = 0.0
    for function, times in often.items():
        flops = facts.flops.get(function)
        if flops is not None:
            total += flops * times
        elif function not in facts.own:
            return None
    return total if often else None


def _pace(gaps: Sequence[Gap], now: int) -> float | None:
    """Return the steps per second over the last seconds, including the work between steps."""
    latest = [gap for gap in gaps if gap.end > now - RECENT_NS]
    latest = latest if len(latest) >= FEWEST else list(gaps[-FEWEST:])
    longest = max(gap.duration for gap in latest)
    waited = now - latest[-1].end
    paid, unpaid = from_wait_to_wait(latest)
    counted, span = list(paid), sum(gap.duration for gap in paid)
    if waited > longest:  # the unfinished step counts once it takes longer than all others
        counted, span = [*paid, *unpaid], span + sum(gap.duration for gap in unpaid) + waited
    return sum(gap.steps for gap in counted) * 1e9 / span if span > 0 else None
