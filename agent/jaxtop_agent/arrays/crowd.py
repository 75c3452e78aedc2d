"""How many arrays may be listed: JAX lists all of them in one call, which holds the GIL from start to end."""

from __future__ import annotations

import sys

# JAX takes 0.1 to 0.15 µs an array on a quiet machine, and up to 0.5 for new ones on several devices.
MOST, LEAST = 25_000, 10_000
LONGEST_S = 0.005
# Once there were too many, counting goes on when there are clearly fewer.
FEWER = 0.8
# Listing may have been slow because the machine was busy: it is tried again after so many refusals, which are
# at least several seconds apart.
RETRY_AFTER = 50
# The fastest of so many listings counts: others were disturbed.
LISTINGS = 4


class Crowd:
    """Decides whether a script has too many arrays to list them.

    The walk over the script's variables finds out first, in slices. Arrays that it cannot reach are met by
    one listing that is too long. No other is made before as many Python objects are gone as arrays would
    have to be: every array is at least one.
    """

    def __init__(self) -> None:
        self.limit = MOST
        self.is_too_large = False
        self._refused = 0
        self._times: list[float] = []  # seconds an array
        # How many were listed the last time, and how many blocks of memory Python had then.
        self._listed, self._blocks = 0, 0

    @property
    def why_not(self) -> str:
        """Why arrays are not counted, as the source says it."""
        return f"off: listing more than {self.limit:,} arrays would hold the script up"

    def may_be_listed(self, named: int) -> bool:
        """Whether listing is short enough, where the walk has found so many arrays."""
        if self.is_too_large:
            self._refused += 1
            if self._refused % RETRY_AFTER == 0:
                self.limit, self.is_too_large = MOST, False
        most = self.limit * FEWER if self.is_too_large else self.limit
        gone = self._blocks - sys.getallocatedblocks()
        self.is_too_large = named > most or (self._listed > most and self._listed - gone > most)
        return not self.is_too_large

    def listed(self, count: int, seconds: float) -> None:
        """Take in how long a listing of so many arrays took."""
        if count >= LEAST:
            self._times = [*self._times, seconds / count][-LISTINGS:]
        if len(self._times) == LISTINGS:
            self.limit = max(LEAST, min(MOST, int(LONGEST_S / min(self._times))))
        self.is_too_large = count > self.limit
        self._listed, self._blocks = count, sys.getallocatedblocks()
