"""Limits how many arrays are listed, because JAX lists all of them in one call that holds the GIL."""

from __future__ import annotations

import sys

# JAX takes 0.1 to 0.15 µs per array on an idle machine, and up to 0.5 µs for new arrays on several devices.
# The bounds of the number of arrays up to which all are listed; the limit between them follows the speed.
MAX_LIVE_ARRAYS = 25_000
MIN_LIVE_ARRAYS = 10_000
# The time that one listing may take.
MAX_LISTING_S = 0.005
# After there were too many arrays, counting resumes only when there are clearly fewer.
FEWER = 0.8
# Listing may have been slow because the machine was busy. It is tried again after this many refusals, which
# are at least several seconds apart.
RETRY_AFTER = 50
# The fastest of the last listings counts, because other work may have slowed the rest.
LISTINGS = 4


class ListingLimit:
    """Decides whether a script has too many arrays to list them.

    The walk over the script's variables, which runs in slices, is the first check. Arrays that it cannot
    reach appear only in a listing, and one such listing may be too long. No other follows until enough Python
    objects have been freed: every array is at least one object.
    """

    def __init__(self) -> None:
        self.limit = MAX_LIVE_ARRAYS
        self.is_too_large = False
        self._refused = 0
        self._times: list[float] = []  # seconds per array
        # The length of the last listing, and the number of memory blocks that Python then had allocated.
        self._listed, self._blocks = 0, 0

    @property
    def why_not(self) -> str:
        """The state of the source while arrays are not counted."""
        return f"off: listing more than {self.limit:,} arrays would delay the script"

    def may_be_listed(self, named: int) -> bool:
        """Return whether a listing is short enough, if the walk has found `named` arrays."""
        if self.is_too_large:
            self._refused += 1
            if self._refused % RETRY_AFTER == 0:
                self.limit, self.is_too_large = MAX_LIVE_ARRAYS, False
        most = self.limit * FEWER if self.is_too_large else self.limit
        gone = self._blocks - sys.getallocatedblocks()
        self.is_too_large = named > most or (self._listed > most and self._listed - gone > most)
        return not self.is_too_large

    def listed(self, count: int, seconds: float) -> None:
        """Record how long a listing of `count` arrays took."""
        if count >= MIN_LIVE_ARRAYS:
            self._times = [*self._times, seconds / count][-LISTINGS:]
        if self._times:
            self.limit = max(MIN_LIVE_ARRAYS, min(MAX_LIVE_ARRAYS, int(MAX_LISTING_S / min(self._times))))
        self.is_too_large = count > self.limit
        self._listed, self._blocks = count, sys.getallocatedblocks()
