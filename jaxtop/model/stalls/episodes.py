"""Standstills as events: told once, again when more is known, and when it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.model.stalls.diagnosis import Certainty

if TYPE_CHECKING:
    from jaxtop.model.stalls.diagnosis import Diagnosis

# A run is looked at once in this many seconds, however many hosts speak.
LOOK_EVERY = 1.0
# The hosts of a run notice within a few seconds of each other, and their stacks are on their way.
SETTLES_WITHIN = {
    Certainty.STANDS: 5.0,
    Certainty.PLACES: 5.0,
    Certainty.WHO: 4.0,
    Certainty.WHY: 2.0,
    Certainty.LOST: 2.0,
}
# A cause that has changed is told anew, no oftener than this.
AGAIN_AFTER = 10.0


@dataclass(frozen=True, slots=True)
class Episode:
    """A standstill of a run, and what was told of it."""

    since: float
    looked_at: float
    told: Diagnosis | None = None
    told_at: float = 0.0

    def looked(self, at: float, found: Diagnosis) -> Episode:
        """After a look; what is news is `told` from now on."""
        is_news = self._is_news(at, found)
        return Episode(self.since, at, found if is_news else self.told, at if is_news else self.told_at)

    def end(self, at: float) -> str:
        """What is said when it is over."""
        return f"launches go on, {at - self.since:.0f} s after they were seen to have stopped"

    def _is_news(self, at: float, found: Diagnosis) -> bool:
        before = self.told
        if at - self.since < SETTLES_WITHIN[found.certainty]:
            return False
        if before is None or found.certainty > before.certainty:
            return True
        has_changed = found.certainty == before.certainty and found.odd != before.odd
        return has_changed and at - self.told_at >= AGAIN_AFTER
