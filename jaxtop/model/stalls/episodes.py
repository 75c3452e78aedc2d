"""Stalls as events: reported once, again when more is known, and when the run resumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.model.stalls.diagnosis import Certainty

if TYPE_CHECKING:
    from jaxtop.model.stalls.diagnosis import Diagnosis

# A run is checked at most once in this many seconds, however many hosts report.
LOOK_EVERY = 1.0
# The hosts of a run detect a stall within a few seconds of each other, and their stacks arrive later.
SETTLES_WITHIN = {
    Certainty.STANDS: 5.0,
    Certainty.PLACES: 5.0,
    Certainty.WHO: 4.0,
    Certainty.WHY: 2.0,
    Certainty.LOST: 2.0,
}
# A changed cause is reported again, at most once in this many seconds.
AGAIN_AFTER = 10.0


@dataclass(frozen=True, slots=True)
class Episode:
    """A stall of a run, and the diagnosis that was reported."""

    since: float
    looked_at: float
    told: Diagnosis | None = None
    told_at: float = 0.0

    def looked(self, at: float, found: Diagnosis) -> Episode:
        """Return the episode after a check at this time; a diagnosis that is news becomes `told`."""
        is_news = self._is_news(at, found)
        return Episode(self.since, at, found if is_news else self.told, at if is_news else self.told_at)

    def end(self, at: float) -> str:
        """Return the text of the event that ends the episode."""
        return f"launches go on, {at - self.since:.0f} s after they were seen to have stopped"

    def _is_news(self, at: float, found: Diagnosis) -> bool:
        before = self.told
        if at - self.since < SETTLES_WITHIN[found.certainty]:
            return False
        if before is None or found.certainty > before.certainty:
            return True
        has_changed = found.certainty == before.certainty and found.odd != before.odd
        return has_changed and at - self.told_at >= AGAIN_AFTER
