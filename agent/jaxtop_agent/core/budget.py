"""What parts of the agent may take of a core, in the long run.

A part that was dear waits until its share is earned; the first times after somebody came it does not wait for
so long. These are limits: a part takes less where a turn every interval is cheap. The sockets, the pulse, the
black box and the waking up have none; they take 0.2 % where little is to be told.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

WARM_UP_TURNS, WARM_UP_PAUSE = 3, 3.0


class Share(NamedTuple):
    """So much of a core, and the longest pause for it: older figures would be taken for those of now."""

    of_core: float
    longest: float = math.inf


CENSUS = Share(0.001)  # of arrays: after one of 4 ms the next is 4 s away; it says when it was
COLLECTOR = Share(0.0006, 10.0)  # each of the others
PROGRAMS = Share(0.002)  # each is read once
HARDWARE = Share(0.0007, 10.0)
WINDOWS = 0.0008


class Pace:
    """How long a part has to wait after each of its turns."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._warm_up = WARM_UP_TURNS
        # The middle one counts: a turn in which Python collects all garbage was not dear by itself.
        self._costs: deque[float] = deque(maxlen=3)

    def after(self, cost: float) -> float:
        """The pause after a turn of so many seconds of CPU."""
        self._costs.append(cost)
        usual = sorted(self._costs)[(len(self._costs) - 1) // 2]
        pause = min(usual / self._share.of_core, self._share.longest)
        if self._warm_up:  # the first times cost most, and who has just come waits for what changes at first
            self._warm_up -= 1
            pause = min(pause, WARM_UP_PAUSE)
        return pause
