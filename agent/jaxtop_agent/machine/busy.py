"""Which threads of the process take most CPU.

Python threads among them contend for the interpreter's lock: where two take much CPU, each waits for the
other, and a training loop that shares the process with a busy data loader waits, too.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from jaxtop.wire import BusyThread
from jaxtop_agent.core.threads import cpu_clock, fact, known
from jaxtop_agent.machine import files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

SHOWN = 3
# A process of JAX has hundreds of threads: looked at each second, they would cost more than all else here.
EVERY = 2.5
# Of one core: less is no burden for anybody.
LEAST = 0.05
# Beyond this many, to look would itself be a burden.
MOST_THREADS = 4096


class BusyThreads:
    """Compares two looks; the agent's own threads are left out, for their cost is told by itself."""

    def __init__(self, own: Callable[[], Collection[int]]) -> None:
        self._own = own
        self._before: tuple[float, dict[int, float]] | None = None
        self._found: tuple[BusyThread, ...] = ()

    def look(self) -> tuple[BusyThread, ...]:
        """The busiest between the last two looks, the busiest first."""
        at = time.monotonic()
        if self._before is not None and at < self._before[0] + EVERY:
            return self._found
        now = _clocks(self._own())
        before, self._before = self._before, (at, now)
        self._found = () if before is None else _busiest(before[1], now, at - before[0])
        return self._found

    def forget(self) -> None:
        """What is looked at next is compared with nothing."""
        self._before, self._found = None, ()


def _busiest(earlier: dict[int, float], now: dict[int, float], elapsed: float) -> tuple[BusyThread, ...]:
    least = LEAST * elapsed
    used = {task: took for task in now if (took := now[task] - earlier.get(task, 0.0)) >= least}
    busiest = sorted(used, key=used.__getitem__, reverse=True)[:SHOWN]
    names = _python_names(busiest)
    return tuple(
        BusyThread(names.get(task) or _comm(task), round(used[task] * 1000 / elapsed), task in names)
        for task in busiest
    )


def _clocks(own: Collection[int]) -> dict[int, float]:
    """The CPU time of each thread, by its clock: a tenth of the cost of its file, and finer."""
    found = {}
    try:
        tasks = os.listdir("/proc/self/task")  # noqa: PTH208 - no objects made
    except OSError:
        return {}
    for name in tasks[:MOST_THREADS]:
        task = int(name)
        if task not in own:
            try:
                found[task] = cpu_clock(task)
            except OSError:  # it has just ended
                continue
    return found


def _python_names(tasks: Collection[int]) -> dict[int, str]:
    """What those of these threads are called that Python knows."""
    if not tasks:
        return {}
    ids = ((fact(each, "_native_id", 0), each) for each in known().values())
    return {task: fact(each, "_name", "") for task, each in ids if task in tasks}


def _comm(task: int) -> str:
    return (files.text(f"/proc/self/task/{task}/comm") or "").strip() or str(task)
