"""What to expect of a window before it opens: events of the launched programs, and time between launches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.names import program_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from jaxtop_agent.core.board import Board

NO_COLLECTIVES = "no program has collectives"
NOT_READ = "for programs to be read"
FEWEST = 2
# A function that is launched this many times less often than another is no step: it may be an evaluation.
RARE = 20


class Expected(NamedTuple):
    """The events per second, and the events of the smallest launch with collectives; None if unknown."""

    per_second: float | None = None
    launch: int | None = None


class Load:
    """An estimate of the events, from the launches of each function between two looks."""

    def __init__(self, board: Board, launches: Callable[[], Mapping[str, int]]) -> None:
        self._board = board
        self._launches = launches
        self._at = -math.inf
        self._before: dict[str, int] = {}

    @property
    def why_closed(self) -> str | None:
        """Why a window has nothing to measure; None if it has, or may have, something."""
        board = self._board
        inventories = board.inventories.values()
        if any(each.collectives or each.unread or each.rest or each.why_not for each in inventories):
            return None
        return NOT_READ if board.recorded is None else NO_COLLECTIVES

    def look(self, now: float, most: int) -> Expected:
        """Estimate the events from the launches since the last look; `most` is the limit of a window."""
        passed, before, recorded = now - self._at, self._before, self._board.recorded
        self._at, self._before = now, self._by_program()
        launched = {name: count - before.get(name, 0) for name, count in self._before.items()}
        with_collectives = {name for (name, _), each in self._board.inventories.items() if each.collectives}
        sizes = recorded or {}
        sized = {name: size for name in with_collectives if (size := sizes.get(name)) is not None}
        candidates = {name: size for name, size in sized.items() if launched.get(name)} or (
            sized if len(sized) == len(with_collectives) else {}
        )
        smallest = min(candidates.values(), default=None)
        if recorded is None or any(size is None or size > most for size in recorded.values()):
            return Expected(None, smallest)
        seen = any(launched.get(name) for name in with_collectives or launched)
        events = sum(count * (sizes.get(name) or 0) for name, count in launched.items())
        return Expected(events / passed if seen else None, smallest)

    def recorder(self) -> Callable[[], int]:
        """Return a function that counts the events of known programs launched from now on."""
        before, sizes = self._by_program(), self._board.recorded or {}
        return lambda: sum(
            (count - before.get(name, 0)) * (sizes.get(name) or 0)
            for name, count in self._by_program().items()
        )

    def _by_program(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for function, count in self._launches().items():
            name = program_of(function)
            found[name] = found.get(name, 0) + count
        return found


class Intervals(NamedTuple):
    """The seconds between launches of the slowest repeated function, and of the fastest with collectives."""

    slowest: float | None = None
    fastest: float | None = None


class LaunchInterval:
    """The time between launches, from the launch totals of two looks."""

    def __init__(self) -> None:
        self._at = 0.0
        self._totals: dict[str, int] = {}

    def seconds(self, now: float, totals: Mapping[str, int], with_collectives: AbstractSet[str]) -> Intervals:
        """Return the times between two launches of functions that are launched repeatedly.

        Functions that are known to have collectives take precedence. None if no function was launched
        repeatedly since the last look; if none of these is known to have collectives, the fastest may be no
        step, so the slowest counts as the fastest too.
        """
        passed, before = now - self._at, self._totals
        self._at, self._totals = now, dict(totals)
        moved = {
            name: count - before[name]
            for name, count in totals.items()
            if name in before and count - before[name] >= FEWEST
        }
        reducing = {name: count for name, count in moved.items() if name in with_collectives}
        among = reducing or moved
        if not among:
            return Intervals()
        often = max(among.values())
        slowest = passed / min(count for count in among.values() if count * RARE >= often)
        return Intervals(slowest, passed / often if reducing else slowest)
