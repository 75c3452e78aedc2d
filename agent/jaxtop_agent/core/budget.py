"""Limits the share of a core that each part of the agent uses over time.

After an expensive turn a part pauses until its average is back within its share; the first pauses of a part
are shorter. The shares are limits: a part whose turns are cheap uses less. The sockets, the pulse, the black
box and the wake-ups have no limit; they take 0.2 % of a core where there is little to report.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

# The first turns are close together until they have used this many CPU seconds.
WARM_UP_TURNS, WARM_UP_PAUSE, WARM_UP_CPU = 3, 3.0, 0.1
# A part that fails this many times in a row is switched off.
MOST_FAILURES = 3


class CpuShare(NamedTuple):
    """A share of a core, and the longest pause: older figures would be mistaken for current ones.

    `at_first` are CPU seconds that the part may use before its first pause, and again once they are earned.
    """

    of_core: float
    longest: float = math.inf
    at_first: float = 0.0


# Of arrays: a census of 3 ms delays the next by 6 s; the message carries its time.
CENSUS = CpuShare(0.0005)
# The same for each of the other collectors. The machine's figures take half a millisecond: every other pulse
# has them.
COLLECTOR = CpuShare(0.0003, 10.0)
# Each program is read only once. At first there are many, and the user wants to see all.
PROGRAMS = CpuShare(0.002, at_first=0.4)
# A change of the step's rhythm must be noticed soon: windows and samples follow it.
RHYTHM = CpuShare(0.0004, 3.0)
HARDWARE = CpuShare(0.0007, 10.0)
WINDOWS = 0.0006


class Throttle:
    """Computes how long a part must pause after each of its turns."""

    def __init__(self, share: CpuShare) -> None:
        self._share = share
        self._warm_up, self._warm_up_left = WARM_UP_TURNS, WARM_UP_CPU
        self._free = share.at_first
        # The median counts: a turn in which Python runs a full garbage collection is not itself expensive.
        self._costs: deque[float] = deque(maxlen=3)

    def pause_after(self, cost: float, elapsed: float = 0.0) -> float:
        """Return the pause after a turn that used `cost` seconds of CPU, `elapsed` after the turn before."""
        self._free = min(self._share.at_first, self._free + elapsed * self._share.of_core) - cost
        if self._free > 0:
            return 0.0
        self._costs.append(cost)
        usual = sorted(self._costs)[(len(self._costs) - 1) // 2]
        pause = min(usual / self._share.of_core, self._share.longest)
        if self._warm_up and self._warm_up_left > 0:  # figures change most at first
            self._warm_up -= 1
            self._warm_up_left -= cost
            pause = min(pause, WARM_UP_PAUSE)
        return pause
