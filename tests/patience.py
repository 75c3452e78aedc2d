"""How long tests wait: one limit for a whole test, longer where the machine is busy.

A limit is in seconds of a machine with a core for each process that wants one. Where four processes share a
core, it is four times as long.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

Result = TypeVar("Result")

# Of a wait outside of tests. Tests have that of pytest-timeout: `timeout` in pyproject.toml, or a mark.
LIMIT_S = 180.0
# However busy the machine is, what hangs ends.
LONGEST_FACTOR = 10.0
# A wait ends before its test does, and so says what it waited for.
OF_THE_TEST = 0.95


def factor() -> float:
    """Return how many processes share a core, at least one: the mean of the last minute or five."""
    minute, five, _ = os.getloadavg()
    return min(max(1.0, max(minute, five) / len(os.sched_getaffinity(0))), LONGEST_FACTOR)


class Deadline:
    """The end of a wait that has begun now, or at this monotonic time."""

    def __init__(self, seconds: float = LIMIT_S, began: float | None = None) -> None:
        self.seconds = seconds
        self.began = monotonic() if began is None else began

    def left(self) -> float:
        """Return the seconds that are left, as busy as the machine is now."""
        return self.seconds * factor() - (monotonic() - self.began)

    def __str__(self) -> str:
        waited = monotonic() - self.began
        return f"{waited:.0f} s, with {factor():.1f} processes for each core"


_test: Deadline | None = None


def begin_test(seconds: float) -> Deadline:
    """Return the deadline of a test that begins."""
    global _test  # noqa: PLW0603 - a process runs one test at a time
    _test = Deadline(seconds)
    return _test


def deadline(within: float | None = None) -> Deadline:
    """Return the end of a wait: these seconds where they are the promise, otherwise that of the test."""
    if within is not None:
        return Deadline(within)
    return Deadline() if _test is None else Deadline(_test.seconds * OF_THE_TEST, _test.began)


def left() -> float:
    """Return the seconds that a wait in this test may take from now on."""
    return deadline().left()


@contextmanager
def cpu_time(seconds: float):
    """Fail what takes more CPU time than this: what would not end, however fast the machine is."""

    def over(*_: object) -> None:
        raise AssertionError(f"not over after {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


async def limited(act: Coroutine[None, None, Result]) -> Result:
    """Await something for no longer than the test may last; the error shows where it hangs."""
    task, end = asyncio.ensure_future(act), deadline()
    while not (await asyncio.wait({task}, timeout=1.0))[0]:
        if end.left() < 0:
            task.cancel()
            try:
                return await task
            except asyncio.CancelledError as cancelled:
                raise AssertionError(f"not over after {end}") from cancelled
    return task.result()
