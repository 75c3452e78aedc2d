"""Measures how often the run launches programs, and detects when it stops."""

from __future__ import annotations

from collections import Counter, deque
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# All launches between two updates count as one move. The times between moves are remembered.
MAX_GAPS = 16
STEADY = 8
LONG_GAPS = 8
# A time without launches that is shorter than this is not a long gap.
MIN_LONG_GAP_S = 5.0
# A long gap is longer than this many times the usual gap, but MAX_LONG_GAP_S is always enough.
LONG_GAP_FACTOR = 6
MAX_LONG_GAP_S = 45.0
# A long gap is longer than this many times the longest remembered gap: occasional pauses are not reported.
LONGEST_GAP_FACTOR = 2
# An update later than this was delayed with the script: the process was stopped, or the GIL was held.
LATE = 3.0
# A shorter time without activity is not a lull.
LULL = 4.0


class LongGap(NamedTuple):
    """When the last launch was seen, and the usual gap between launches."""

    since: float
    usual: float


class LaunchGaps:
    """Detects long gaps from the launch counters, read about every second; time is an argument."""

    def __init__(self) -> None:
        self._counts: Mapping[str, int] = {}
        self._gaps: deque[float] = deque(maxlen=MAX_GAPS)
        self._long_gaps: deque[float] = deque(maxlen=LONG_GAPS)
        self._movers: deque[frozenset[str]] = deque(maxlen=MAX_GAPS)
        self._updated_at: float | None = None
        self._moved = 0.0  # the update that saw the last move
        self._moved_after = 0.0  # the update before that
        self._is_disturbed = True  # no gap can be measured before the first move

    def update(
        self, now: float, counts: Mapping[str, int], *, compiling: bool = False, compiled_at: float = 0.0
    ) -> LongGap | None:
        """Return the current long gap, if any; `compiled_at` is when a compilation last ended."""
        if self._updated_at is not None and (late := now - self._updated_at) > LATE:
            self._moved += late
            self._moved_after += late
        movers = frozenset(name for name, count in counts.items() if count != self._counts.get(name))
        self._counts = counts
        # The first call of a program is not counted, so it may be running, and for any time.
        if compiling or compiled_at >= self._moved_after:
            self._is_disturbed = True
        before, self._updated_at = self._updated_at, now
        if movers:
            self._move(now, movers)
            self._moved_after = now if before is None else before
        elif not self._is_disturbed and len(self._gaps) >= STEADY and now - self._moved > self._patience():
            return LongGap(self._moved, self.usual())
        return None

    def usual(self) -> float:
        return median(self._gaps) if self._gaps else 0.0

    def carrier(self, weights: Mapping[str, float]) -> str:
        """Return a function that takes part in most moves; of several, the one with the largest weight."""
        seen = Counter(name for movers in self._movers for name in movers)
        often = [name for name, times in seen.items() if times * 2 > len(self._movers)] or list(seen)
        return max(often, key=lambda name: (weights.get(name, 0), seen[name], name), default="")

    def _move(self, now: float, movers: frozenset[str]) -> None:
        gap = now - self._moved
        if not self._is_disturbed:
            if gap * LONGEST_GAP_FACTOR > self._least_patience():
                self._long_gaps.append(gap)
            self._gaps.append(gap)
        self._movers.append(movers)
        self._moved = now
        self._is_disturbed = False

    def _patience(self) -> float:
        return max(self._least_patience(), LONGEST_GAP_FACTOR * max((*self._gaps, *self._long_gaps)))

    def _least_patience(self) -> float:
        return max(MIN_LONG_GAP_S, min(LONG_GAP_FACTOR * self.usual(), MAX_LONG_GAP_S))


class LullDetector:
    """Detects times without activity, with or without a regular rhythm; time is an argument."""

    def __init__(self, now: float) -> None:
        self._since = self._updated_at = now
        self.longest = 0.0

    def update(self, now: float, done_at: float, *, compiling: bool, compiled_at: float) -> float | None:
        """Return the start of a time without launches, reported steps and compilations; None if it is short.

        `done_at` is the time of the last launch or reported step, `compiled_at` that of the end of the last
        compilation.
        """
        before, self._updated_at = self._updated_at, now
        if compiling or now - before > LATE:
            self._since = now
        self._since = max(self._since, compiled_at)
        if done_at > self._since:
            self.longest = max(self.longest, done_at - self._since)
            self._since = done_at
        return self._since if now - self._since >= LULL else None
