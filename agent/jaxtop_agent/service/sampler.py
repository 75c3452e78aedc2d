"""The sampler: calls the collectors in order, each as often as its cost allows."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from jaxtop.base import debuglog
from jaxtop.base.clock import now_ms
from jaxtop_agent import collectors, jaxprivate
from jaxtop_agent.core import budget
from jaxtop_agent.core.board import Board, off_reason
from jaxtop_agent.core.waiting import wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Without viewers the sampler only checks whether the backends are up, and keeps the hooks installed.
IDLE_INTERVAL = 2.0
# A collector that has more to read runs again after this time, until its first pause.
AGAIN_S = 0.2


class _Turn:
    """A collector with its schedule and its failures."""

    def __init__(self, collector: collectors.Collector) -> None:
        self.collector = collector
        self.throttle = budget.Throttle(collector.share)
        self.ran_at = -math.inf
        self.ran_ms: int | None = None
        self.pause = 0.0
        self.goes_on = False
        self.failures_in_a_row = 0
        self.runs_often = collector.share.longest < math.inf

    @property
    def is_off(self) -> bool:
        return self.failures_in_a_row >= budget.MOST_FAILURES


class Sampler:
    """Runs on its own thread until `board.stopping`."""

    def __init__(
        self, board: Board, sampled: Iterable[collectors.Collector], *chores: Callable[[], None]
    ) -> None:
        self._board = board
        self._chores = chores  # called at each tick, with or without viewers
        self._turns = [_Turn(collector) for collector in sampled]
        for turn in self._turns:
            board.sources[turn.collector.name] = "on"
            board.sampler.costs[turn.collector.name] = 0.0

    def run(self) -> None:
        try:
            self._sample()
        except BaseException as error:  # figures left on the board would pass for current ones
            for turn in self._turns:
                self._switch_off(turn.collector, error)
            raise

    def _sample(self) -> None:
        board = self._board
        due = time.monotonic()
        while not board.stopping:
            watched = board.is_watched
            self._tick(watched)
            now = time.monotonic()
            due = max(due + self._until_next(watched), now)
            if wait(board.wakeups.sampler, due - now):
                due = time.monotonic()  # a viewer connected: sample at once

    def _until_next(self, watched: bool) -> float:
        """Return the seconds between this tick and the next one: few while a collector has more to read."""
        if watched and any(turn.goes_on for turn in self._turns):
            return AGAIN_S
        return self._interval(watched)

    def _interval(self, watched: bool) -> float:
        """Return the seconds between ticks; at most 2 until the backends are up, to notice that soon."""
        if not watched:
            return IDLE_INTERVAL
        interval = self._board.requests.interval
        return interval if self._board.sampler.topology is not None else min(interval, IDLE_INTERVAL)

    def _tick(self, watched: bool) -> None:
        for chore in self._chores:
            try:
                chore()
            except Exception as error:  # an error at the launch hook's slot must not stop the rest
                debuglog.warning("sampler", f"{getattr(chore, '__qualname__', chore)} failed", error=error)
        client = self._client()
        topology = self._board.sampler.topology
        for turn in self._turns:
            if watched or self._runs_unwatched(turn.collector):
                self._run_collector(turn, client, self._interval(watched))
        if watched:
            is_first = self._board.sampler.sampled_ms is None
            # Collectors pause for different times, so the sample is as old as its oldest part. Arrays do not
            # count here: they carry their own time.
            sampled_ms = [turn.ran_ms for turn in self._turns if turn.runs_often and not turn.is_off]
            self._board.sampler.sampled_ms = min(filter(None, sampled_ms), default=now_ms())
            if is_first:
                self._board.pulse_now = True
                self._board.wakeups.publisher.set()
        else:
            self._board.sampler.sampled_ms = None  # samples for the last viewer are too old for the next
        if self._board.sampler.topology is not topology:
            self._board.wakeups.registrar.set()
            self._board.wakeups.hardware.set()
            self._board.wakeups.libraries.set()
            self._board.wakeups.publisher.set()

    def _runs_unwatched(self, collector: collectors.Collector) -> bool:
        is_reported = self._board.is_reporting and collector.name in collectors.REPORT_COLLECTORS
        return collector.also_unwatched or is_reported

    def _client(self) -> Any:
        try:
            return jaxprivate.default_client()
        except Exception as error:  # JAX may keep its backends elsewhere; figures of the machine still work
            debuglog.warning("sampler", "the backends cannot be found", error=error)
            self._board.switch_off("devices", error)
            return None

    def _run_collector(self, turn: _Turn, client: Any, interval: float) -> None:
        started = time.monotonic()
        # Slightly early, because a collector that is due at each tick would otherwise miss every second one.
        due = turn.ran_at + (AGAIN_S / 2 if turn.goes_on else max(interval * 0.9, turn.pause))
        if turn.is_off or started < due or self._board.stopping:
            return
        cpu, has_more = time.thread_time(), False
        try:
            has_more = bool(turn.collector.collect(self._board, client))
            turn.failures_in_a_row = 0
        except Exception as error:
            turn.failures_in_a_row += 1
            attempt = f"{turn.failures_in_a_row} of {budget.MOST_FAILURES} times in a row"
            debuglog.warning("sampler", f"the collector {turn.collector.name!r} failed", attempt, error)
            if turn.is_off:
                self._switch_off(turn.collector, error)
        cost = time.thread_time() - cpu
        self._board.sampler.costs[turn.collector.name] += cost
        turn.pause = turn.throttle.pause_after(cost, started - turn.ran_at)
        turn.goes_on = has_more and not turn.pause
        turn.ran_at, turn.ran_ms = started, now_ms()

    def _switch_off(self, collector: collectors.Collector, error: BaseException) -> None:
        why = off_reason(error)
        try:
            collector.forget(self._board)
        except Exception as other:  # the other collectors go on
            debuglog.warning("sampler", f"the collector {collector.name!r} cannot be reset", error=other)
        self._board.sources[collector.name] = why
        self._board.report("warning", "source", f"{collector.name} is {why}")
