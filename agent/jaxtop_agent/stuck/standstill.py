"""For how long nothing of the process has moved; time is an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.stuck.usage import moved

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.stuck.usage import Usage

# An update later than this was delayed with the process: it was stopped, or no Python could run. Nobody
# knows what it did in that time.
LATE_S = 3.0
# Readings begin after a time without launches: at most this many seconds, and this share of the limit.
QUIET_S, QUIET_SHARE = 15.0, 0.1
# From one reading to the next, in the same way.
SHORTEST_S, LONGEST_S, SHARE = 1.5, 15.0, 0.1
# A pause of the script is not a standstill until it lasts this many times the longest that ended by itself.
TIMES_LONGEST = 2.0


class Observation(NamedTuple):
    """What one look at the process shows.

    `done_at` is when it last launched, reported a step, compiled or completed a checkpoint. `busy` is what it
    does that counts as a movement by itself, in words; empty if nothing does. `counted` says for which
    threads the CPU time counts.
    """

    done_at: float
    busy: str
    counted: Callable[[int], bool]


class Standstill:
    """Follows one process; used by one thread."""

    def __init__(self, limit: float, now: float, read: Callable[[float], Usage]) -> None:
        self._limit = limit
        self._read = read
        self._updated_at = self._moved_at = now
        self._done_at = 0.0
        self._is_disturbed = True
        self._longest = 0.0  # the longest time between two launches
        # The first reading of this standstill, and the last one.
        self._first: Usage | None = None
        self._last: Usage | None = None
        self.moves = ""  # what it does or did last

    @property
    def quiet_s(self) -> float:
        return min(QUIET_S, QUIET_SHARE * self._limit)

    @property
    def patience(self) -> float:
        """For how long nothing may move."""
        return max(self._limit, TIMES_LONGEST * self._longest)

    @property
    def for_s(self) -> float:
        """For how long, up to the last reading, nothing has moved."""
        return 0.0 if self._first is None or self._last is None else self._last.at - self._first.at

    @property
    def is_stuck(self) -> bool:
        return self.for_s >= self.patience

    @property
    def moves_without_launches(self) -> str:
        """What the process did last, if it has launched nothing for as long as a stuck one; else empty."""
        is_quiet = self._done_at > 0 and self._updated_at - self._done_at > self.patience + self.quiet_s
        return self.moves if is_quiet and not self.is_stuck else ""

    def update(self, now: float, seen: Observation) -> None:
        late, self._updated_at = now - self._updated_at, now
        if late > LATE_S:
            self._is_disturbed = True
            self._move(now, "was stopped, or ran no Python, a moment ago")
        if seen.done_at > self._done_at:
            if self._done_at and not self._is_disturbed:
                self._longest = max(self._longest, seen.done_at - self._done_at)
            self._done_at, self._is_disturbed = seen.done_at, False
            self._move(now, "launches")
        elif seen.busy:
            self._move(now, seen.busy)
        elif now - self._moved_at >= self.quiet_s:
            self._compare(now, seen.counted)

    def _move(self, now: float, what: str) -> None:
        self._moved_at, self.moves = now, what
        self._first = self._last = None

    def _compare(self, now: float, counted: Callable[[int], bool]) -> None:
        before = self._last
        if before is None:
            self._first = self._last = self._read(now)
            return
        if now - before.at < min(LONGEST_S, max(SHORTEST_S, SHARE * self._limit)):
            return
        self._last = self._read(now)
        if what := moved(before, self._last, counted):
            self._first, self.moves = self._last, what
