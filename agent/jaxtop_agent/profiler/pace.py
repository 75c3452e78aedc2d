"""The time between launches, from the launch hook: the only source of it before the first window."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

FEWEST = 2
# A function that is launched this many times less often than another is no step: it may be an evaluation.
RARE = 20


class LaunchPace:
    """The time between launches, from the launch totals of two looks."""

    def __init__(self) -> None:
        self._at = 0.0
        self._totals: dict[str, int] = {}

    def seconds(
        self, now: float, totals: Mapping[str, int], with_collectives: AbstractSet[str]
    ) -> float | None:
        """Return the time between two launches of the slowest function that is launched repeatedly.

        Functions that are known to have collectives take precedence. None if no function was launched
        repeatedly since the last look.
        """
        passed, before = now - self._at, self._totals
        self._at, self._totals = now, dict(totals)
        moved = {
            name: count - before[name]
            for name, count in totals.items()
            if name in before and count - before[name] >= FEWEST
        }
        among = {name: count for name, count in moved.items() if name in with_collectives} or moved
        if not among:
            return None
        often = max(among.values())
        return passed / min(count for count in among.values() if count * RARE >= often)
