"""How far apart launches are, by the launch hook: there is nothing else to go by before the first window."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

FEWEST = 2
# What is launched far less often than others is an evaluation, or the like, and no step.
RARE = 20


class LaunchPace:
    """Compares the totals of two looks."""

    def __init__(self) -> None:
        self._at = 0.0
        self._totals: dict[str, int] = {}

    def seconds(
        self, now: float, totals: Mapping[str, int], with_collectives: AbstractSet[str]
    ) -> float | None:
        """The time between two launches of the slowest function that was launched again and again.

        Functions that are known to hold collectives go before others. None where nothing was launched since.
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
