"""Counts the runs of Python's garbage collector, during which no Python of this process runs."""

from __future__ import annotations

import gc
from collections import deque
from contextlib import suppress
from time import monotonic, thread_time_ns
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


# The runs whose times are remembered for the ledger, and how long they are at least.
MOST_SPANS, SHORTEST_SPAN_S = 256, 0.001


class GarbageRuns(NamedTuple):
    """The number of runs since the start, their total duration, and the longest since the last reading."""

    runs: int
    total_ns: int
    longest_ns: int


class GarbageClock:
    """Called by the collector before and after each run, on the thread that runs it.

    Runs on a thread that compiles are part of its compilation: tracing makes garbage. The thread's CPU time
    counts, because on a busy machine a run waits for a core as everything else does.
    """

    def __init__(self, is_compiling: Callable[[], bool]) -> None:
        self._is_compiling = is_compiling
        self._runs = self._total = self._longest = 0
        self._began: int | None = None
        self._entered = 0.0
        # The start and the end of long runs outside of compilations, on the monotonic clock.
        self.spans: deque[tuple[float, float]] = deque(maxlen=MOST_SPANS)

    def install(self) -> None:
        gc.callbacks.append(self._note)

    def uninstall(self) -> None:
        with suppress(ValueError):
            gc.callbacks.remove(self._note)

    def _note(self, phase: str, _facts: object) -> None:
        if phase == "start":
            self._began = None if self._is_compiling() else thread_time_ns()
            self._entered = monotonic()
        elif self._began is not None:
            took = thread_time_ns() - self._began
            self._began = None
            self._runs += 1
            self._total += took
            self._longest = max(self._longest, took)
            if (now := monotonic()) - self._entered >= SHORTEST_SPAN_S:
                self.spans.append((self._entered, now))

    def read(self) -> GarbageRuns:
        """Return the runs so far; the longest one is forgotten."""
        longest, self._longest = self._longest, 0
        return GarbageRuns(self._runs, self._total, longest)
