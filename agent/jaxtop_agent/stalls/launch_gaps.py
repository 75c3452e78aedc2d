"""The rhythm of the run: how often something is launched, and whether that has stopped."""

from __future__ import annotations

from collections import Counter, deque
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# Moves between two looks are one move: what is remembered are the times between these.
REMEMBERED = 16
STEADY = 8
PAUSES = 8
# Nothing launched for so many seconds, or so many times the usual, is a standstill; and twice the longest
# pause that there was, so that what happens now and then is not told each time.
AT_LEAST, TIMES, AT_MOST = 5.0, 6, 45.0
TIMES_A_PAUSE = 2
# A look that comes so late was held up like the script itself: stopped, or without the GIL.
LATE = 3.0
# What lasts for less than this is no lull.
LULL = 4.0


class Standstill(NamedTuple):
    """Since when nothing was launched, and how long a pause usually is."""

    since: float
    usual: float


class Rhythm:
    """Fed with the launch counters every second or so; time is an argument."""

    def __init__(self) -> None:
        self._counts: Mapping[str, int] = {}
        self._gaps: deque[float] = deque(maxlen=REMEMBERED)
        self._pauses: deque[float] = deque(maxlen=PAUSES)
        self._movers: deque[frozenset[str]] = deque(maxlen=REMEMBERED)
        self._looked: float | None = None
        self._moved = 0.0  # the look that saw the last move
        self._moved_after = 0.0  # and the one before it
        self._is_disturbed = True  # before the first move nothing is known

    def look(
        self, now: float, counts: Mapping[str, int], *, compiling: bool = False, compiled_at: float = 0.0
    ) -> Standstill | None:
        """The standstill that there is now, if any; `compiled_at` is when a compilation last ended."""
        self._forgive_lateness(now)
        movers = frozenset(name for name, count in counts.items() if count != self._counts.get(name))
        self._counts = counts
        # The first call of a program is not counted: it may be running, for as long as it likes.
        if compiling or compiled_at >= self._moved_after:
            self._is_disturbed = True
        before, self._looked = self._looked, now
        if movers:
            self._move(now, movers)
            self._moved_after = now if before is None else before
        elif not self._is_disturbed and len(self._gaps) >= STEADY and now - self._moved > self._patience():
            return Standstill(self._moved, self.usual())
        return None

    def usual(self) -> float:
        """The median time between two moves."""
        return median(self._gaps) if self._gaps else 0.0

    def carrier(self, weights: Mapping[str, float]) -> str:
        """The function that most moves have in them; of several the heaviest."""
        seen = Counter(name for movers in self._movers for name in movers)
        often = [name for name, times in seen.items() if times * 2 > len(self._movers)] or list(seen)
        return max(often, key=lambda name: (weights.get(name, 0), seen[name], name), default="")

    def _forgive_lateness(self, now: float) -> None:
        if self._looked is not None and (late := now - self._looked) > LATE:
            self._moved += late
            self._moved_after += late

    def _move(self, now: float, movers: frozenset[str]) -> None:
        gap = now - self._moved
        if not self._is_disturbed:
            if gap * TIMES_A_PAUSE > self._least_patience():
                self._pauses.append(gap)
            self._gaps.append(gap)
        self._movers.append(movers)
        self._moved = now
        self._is_disturbed = False

    def _patience(self) -> float:
        return max(self._least_patience(), TIMES_A_PAUSE * max((*self._gaps, *self._pauses)))

    def _least_patience(self) -> float:
        return max(AT_LEAST, min(TIMES * self.usual(), AT_MOST))


class Lull:
    """How long nothing has been done, whether there is a rhythm or not; time is an argument."""

    def __init__(self, now: float) -> None:
        self._since = self._looked = now
        self.longest = 0.0

    def look(self, now: float, done_at: float, *, compiling: bool, compiled_at: float) -> float | None:
        """Since when nothing has been launched, told or compiled; None while that is short.

        `done_at` is when something was last launched or told, `compiled_at` when a compilation last ended.
        """
        before, self._looked = self._looked, now
        if compiling or now - before > LATE:
            self._since = now
        self._since = max(self._since, compiled_at)
        if done_at > self._since:
            self.longest = max(self.longest, done_at - self._since)
            self._since = done_at
        return self._since if now - self._since >= LULL else None
