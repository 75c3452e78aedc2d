"""Measurements from inside a training process."""

from __future__ import annotations

import os
import resource
import threading
import time
import weakref
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A shorter gap is the loop itself or an interrupt. The cause of a longer one is determined.
GAP_S = 50e-6
LOOK_AGAIN_S = 1e-3
KNOWN_HOLD_S = 1e-3


def gaps(seconds: float, others: frozenset[int]) -> list[float]:
    """Spin and examine each gap. Only a gap in which this thread slept can be a wait for the GIL."""
    clock, usage = time.perf_counter, resource.getrusage
    found: list[float] = []
    with ExitStack() as stack:
        others = frozenset(filter(_runs_python, others))
        files = [
            stack.enter_context(open(f"/proc/self/task/{task}/schedstat"))
            for task in (threading.get_native_id(), *others)
        ]
        last = looked = clock()
        end = last + seconds
        sleeps, queued = usage(resource.RUSAGE_THREAD).ru_nvcsw, _queued(files)
        while last < end:
            now = clock()
            # Also at intervals without a gap, so that earlier queue time is not subtracted from a gap.
            if now - last > GAP_S or now - looked > LOOK_AGAIN_S:
                before = sleeps, queued
                sleeps, queued = usage(resource.RUSAGE_THREAD).ru_nvcsw, _queued(files)
                looked = now
                # Other processes cause the time on the run queue, both ours and that of the GIL's holder.
                own, *theirs = (after - until for after, until in zip(queued, before[1], strict=True))
                if sleeps > before[0]:
                    found.append(max(0.0, now - last - own - max(theirs, default=0.0)))
            last = now
    return found


@contextmanager
def a_known_holder() -> Iterator[int]:
    """Run a thread that repeatedly holds the GIL for a known time, which shows the error of the probe."""
    over = threading.Event()

    def hold() -> None:
        while not over.wait(0.1):
            end = time.thread_time() + KNOWN_HOLD_S
            while time.thread_time() < end:
                pass

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert thread.native_id is not None
        yield thread.native_id
    finally:
        over.set()
        thread.join()


def drops(seconds: float, make: Callable[[], Any]) -> list[float]:
    """Drop an array every half millisecond, and measure when each is really freed."""
    kept = deque(make() for _ in range(100))
    outlived: list[float] = []
    watched: list[Any] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        dropped_at = [0.0]
        watched.append(weakref.ref(kept[0], lambda _, at=dropped_at: outlived.append(_since(at[0]))))
        kept.append(make())
        # Directly before the drop: a garbage collection in between would be counted.
        dropped_at[0] = time.perf_counter()
        kept.popleft()
        time.sleep(5e-4)
    return outlived


def _since(then: float) -> float:
    return time.perf_counter() - then


def _queued(files: list[TextIO]) -> list[float]:
    return [int(os.pread(file.fileno(), 100, 0).split()[1]) / 1e9 for file in files]


def tasks() -> frozenset[int]:
    """Return the threads of this process, Python's and others."""
    return frozenset(int(name) for name in os.listdir("/proc/self/task"))


def cpu(tasks: frozenset[int]) -> dict[int, float]:
    """Return the CPU seconds of each of these threads that still lives, as the scheduler counts them."""
    used = {}
    for task in tasks:
        with suppress(FileNotFoundError, ProcessLookupError):
            used[task] = int(Path(f"/proc/self/task/{task}/schedstat").read_text().split()[0]) / 1e9
    return used


def wakes(tasks: frozenset[int]) -> dict[int, int]:
    """Return how often each of these threads that still lives has waited, and so was woken."""
    found = {}
    for task in tasks:
        with suppress(FileNotFoundError, ProcessLookupError):
            status = Path(f"/proc/self/task/{task}/status").read_text()
            found[task] = int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return found


def _runs_python(task: int) -> bool:
    """Whether this thread of ours is alive and may take the GIL: ZeroMQ's own threads never do."""
    try:
        return not Path(f"/proc/self/task/{task}/comm").read_text().startswith("ZMQ")
    except FileNotFoundError:
        return False


def memory() -> dict[str, float]:
    """Return the resident memory of this process, and its private dirty part, in MB.

    Pages that it only reads are left out: if one of two processes with a library ends, they become private to
    the other.
    """
    sizes = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, amount = line.split()[:2]
        sizes[name.rstrip(":")] = int(amount) * 1024 / 1e6
    return {"rss": sizes["Rss"], "uss": sizes["Private_Dirty"]}
