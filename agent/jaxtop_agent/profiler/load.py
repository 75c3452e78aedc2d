"""The expected contents of a window: the events of the launched programs, estimated before it opens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.names import program_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jaxtop_agent.core.board import Board

NO_COLLECTIVES = "no program has collectives"
NOT_READ = "for programs to be read"


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
        known = {name: size for name in with_collectives if (size := sizes.get(name)) is not None}
        candidates = {name: size for name, size in known.items() if launched.get(name)} or (
            known if len(known) == len(with_collectives) else {}
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
