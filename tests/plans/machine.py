"""What the machine does besides a run."""

from __future__ import annotations

import time

import psutil

# The machine counts as idle if less than this share of it was busy for so many seconds.
IDLE, IDLE_FOR_S = 0.08, 3.0


def busy_s() -> float:
    """Return the CPU seconds that the machine has spent, without those of this process."""
    now, own = psutil.cpu_times(), psutil.Process().cpu_times()
    return float(now.user + now.nice + now.system - own.user - own.system)


def wait_until_idle() -> None:
    """Wait until nobody else uses the machine, however long that takes."""
    while True:
        began, busy = time.monotonic(), busy_s()
        time.sleep(IDLE_FOR_S)
        passed = (time.monotonic() - began) * psutil.cpu_count()
        if busy_s() - busy < IDLE * passed:
            return
