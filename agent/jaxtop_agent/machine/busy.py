"""The threads of the process that use the most CPU.

Python threads contend for the interpreter's lock. Where two of them use much CPU, each waits for the other: a
training loop waits for a busy data loader in the same process.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jaxtop.base.processes import numbers_in
from jaxtop.wire import BusyThread
from jaxtop_agent.core.threads import cpu_clock, fact, listed
from jaxtop_agent.machine import files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

SHOWN_THREADS = 3
# The seconds between two readings. A JAX process has hundreds of threads, so a reading every second would
# cost more than the rest of the agent.
READ_INTERVAL_S = 2.5
# The least share of one core that is reported.
MIN_CORE_SHARE = 0.05
# Reading more threads than this would itself use much CPU.
MOST_THREADS = 4096


class BusyThreads:
    """Compares two readings; the agent's own threads are left out, as their cost is reported separately."""

    def __init__(self, own: Callable[[], Collection[int]]) -> None:
        self._own = own
        self._before: tuple[float, dict[int, float]] | None = None
        self._found: tuple[BusyThread, ...] = ()

    def look(self) -> tuple[BusyThread, ...]:
        """Return the busiest threads between the last two readings, the busiest first."""
        at = time.monotonic()
        if self._before is not None and at < self._before[0] + READ_INTERVAL_S:
            return self._found
        now = _clocks(self._own())
        before, self._before = self._before, (at, now)
        self._found = () if before is None else _busiest(before[1], now, at - before[0])
        return self._found

    def forget(self) -> None:
        """Discard the readings, so that the next one is compared with nothing."""
        self._before, self._found = None, ()


def _busiest(earlier: dict[int, float], now: dict[int, float], elapsed: float) -> tuple[BusyThread, ...]:
    least = MIN_CORE_SHARE * elapsed
    used = {task: took for task in now if (took := now[task] - earlier.get(task, 0.0)) >= least}
    busiest = sorted(used, key=used.__getitem__, reverse=True)[:SHOWN_THREADS]
    python, found = _python_names(busiest), []
    for task in busiest:
        name = python.get(task) or (files.text(f"/proc/self/task/{task}/comm") or "").strip() or str(task)
        found.append(BusyThread(name, round(used[task] * 1000 / elapsed), task in python))
    return tuple(found)


def _clocks(own: Collection[int]) -> dict[int, float]:
    """Return the CPU time of each thread from its clock: a tenth of the cost of its file, and finer."""
    found = {}
    for task in numbers_in("/proc/self/task")[:MOST_THREADS]:
        if task not in own:
            try:
                found[task] = cpu_clock(task)
            except OSError:  # it has just ended
                continue
    return found


def _python_names(tasks: Collection[int]) -> dict[int, str]:
    """Return Python's names of these threads, for those that Python created."""
    if not tasks:
        return {}
    ids = ((fact(each, "_native_id", 0), each) for each in listed().values())
    return {task: fact(each, "_name", "") for task, each in ids if task in tasks}
