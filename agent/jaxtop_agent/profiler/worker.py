"""The thread that takes windows: it waits for the slot, takes a window, reads it and sends it."""

from __future__ import annotations

import math
import os
import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING

from jaxtop.base.clock import now_ms
from jaxtop.wire import Window
from jaxtop_agent import jaxprivate
from jaxtop_agent.core.waiting import IDLE_S, WorkSlices, wait
from jaxtop_agent.machine.cgroups import memory_left
from jaxtop_agent.profiler.capture import CaptureWorker
from jaxtop_agent.profiler.load import NOT_READ, Load, StepsMade, WindowEstimate
from jaxtop_agent.profiler.reading import TraceReader
from jaxtop_agent.profiler.schedule import (
    LIMITS_UNDER_GIL,
    OFF,
    ON_REQUEST,
    SLOT_S,
    Schedule,
    WindowResult,
    why_dangerous,
    why_not_sampled,
)
from jaxtop_agent.profiler.session import ProfiledTrace, ProfilerSession, Refused

if TYPE_CHECKING:
    from jaxtop.wire import Launch
    from jaxtop_agent.core.board import Board, ProgramKey, Topology
    from jaxtop_agent.hooks.jax import Hooks
    from jaxtop_agent.steps.progress import Progress

SOURCE = "collectives"


class Unwanted(Exception):
    """Something else is more urgent than the trace that is being read."""


class WindowThread:
    """The worker. It runs until the board stops it, and without viewers takes only requested windows."""

    def __init__(
        self,
        board: Board,
        hooks: Hooks,
        chosen: str,
        progress: Progress | None = None,
    ) -> None:
        """Create the worker; `chosen` is the policy, `progress` what the script reports of its steps."""
        self._board = board
        self._policy = chosen
        self._hooks = hooks
        self._load = Load(board, hooks.launches)
        self._expected = WindowEstimate()
        self._estimated_at = -math.inf
        self._schedule = Schedule()
        self._progress = progress
        self._session: ProfilerSession | None = None
        self._profiler: jaxprivate.Profiler | None = None
        self._reader: TraceReader | None = None
        self._was_watched = False
        self._captured = 0  # the number of requests that have been served
        self._rhythm_since = 0
        self._reducing: set[ProgramKey] = set()
        board.sources[SOURCE] = (
            "off: switched off (JAXTOP_COLLECTIVES, or collectives= of agent.start)"
            if chosen == OFF
            else "waiting: for devices"
        )

    def after_fork(self) -> None:
        """Restore the script's lock in a forked child, as if no window had been open."""
        if self._session is not None:
            self._session.after_fork()

    def run(self) -> None:
        board = self._board
        if self._policy == OFF:
            board.windows.can_capture = False
            return
        try:
            profiler = self._profiler = jaxprivate.Profiler()
            self._session = ProfilerSession(profiler, board.wakeups.windows, self._danger)
            self._reader = TraceReader(board, profiler, self._hooks.numbered)
            if not profiler.frees_the_gil:
                self._schedule = Schedule(LIMITS_UNDER_GIL)
            session = self._session
            capturing = CaptureWorker(board, self._load, self._schedule, self._steps)
            while not board.stopping:
                if board.capture.has_changed:
                    self._send_capture(capturing.serve(session))
                else:
                    self._take_next_window()
        except BaseException:  # no retry: an error in here may harm the script's process
            board.windows.can_capture = False
            raise

    def _danger(self) -> str | None:
        topology = self._board.sampler.topology
        if topology is None:
            return "the devices are not known yet"
        return why_dangerous(self._policy, topology.vendor, os.environ.get("XLA_FLAGS", ""))

    def _steps(self) -> StepsMade | None:
        return self._load.steps(0 if self._progress is None else self._progress.calls)

    def _take_next_window(self) -> None:
        """Wait for the next slot, request or viewer, and take a window if one is due."""
        board = self._board
        assert self._reader is not None
        self._reader.send_operations()
        topology = board.sampler.topology
        is_sampled = topology is not None and self._is_sampled(topology)
        self._renew_schedule()
        is_requested = board.requests.windows > self._captured
        if topology is not None and (is_requested or (is_sampled and board.is_watched)):
            self._take_when_due(topology, is_requested=is_requested)
            return
        # Later launches may be small enough. Slow steps are launched repeatedly only in a longer time.
        if board.is_watched and time.monotonic() - self._estimated_at >= SLOT_S:
            self._estimate_load()
        wait(board.wakeups.windows, 1.0 if board.is_watched or topology is None else IDLE_S)

    def _renew_schedule(self) -> None:
        """Begin the schedule for a first viewer, and renew it for a new rhythm of the steps."""
        board = self._board
        now = time.time() + board.registrar.clock_offset
        if board.is_watched and not self._was_watched:
            self._schedule.begin(now)
            if self._reader is not None:
                self._reader.begin()
        self._was_watched = board.is_watched
        if self._has_new_rhythm():
            self._rhythm_since = 0 if board.sampler.rhythm is None else board.sampler.rhythm.since_ms
            self._reducing |= self._load.reducing()
            self._schedule.renew(now)

    def _take_when_due(self, topology: Topology, *, is_requested: bool) -> None:
        """Wait for the time of a requested window, or for the next slot, and take the window."""
        board = self._board
        now = time.time() + board.registrar.clock_offset
        slot = None if is_requested else self._schedule.next_slot(now)
        if slot is None:
            at = self._schedule.requested_at(board.requests.window_at, now)
        else:
            at = slot * SLOT_S
            self._estimate_load()  # so that the launches until the slot decide the window's length
        if self._wait_until(at, requested=is_requested):
            self._captured = board.requests.windows
            self._take(topology, slot)

    def _wait_until(self, at: float, *, requested: bool) -> bool:
        """Wait for this time of the common clock; return False if the wait is interrupted."""
        board = self._board
        while (left := at - time.time() - board.registrar.clock_offset) > 0:
            is_woken = wait(board.wakeups.windows, min(left, 2 * SLOT_S))
            if self._reader is not None:
                self._reader.send_operations()
            if board.stopping or board.capture.has_changed:
                return False
            if requested:
                continue
            if is_woken and (board.requests.windows > self._captured or not board.is_watched):
                return False
            if self._has_new_rhythm():
                return False
        return not board.stopping

    def _has_new_rhythm(self) -> bool:
        """Return whether step times, or the programs with collectives, changed since windows were planned."""
        rhythm = self._board.sampler.rhythm
        if rhythm is not None and rhythm.before_us is not None and rhythm.since_ms != self._rhythm_since:
            return True
        # All processes launch a new program in the same step, whereas each notices another pace by itself.
        return not self._load.reducing() <= self._reducing

    def _is_sampled(self, topology: Topology) -> bool:
        assert self._profiler is not None
        if (danger := self._danger()) is not None:
            self._board.windows.can_capture = False
            self._board.sources[SOURCE] = f"off: {danger}"
            return False
        why_not = why_not_sampled(self._policy, topology.platform, self._profiler)
        why_closed = self._load.why_closed
        most, launch = self._schedule.most_events(), self._expected.launch
        if why_not is None and why_closed is not None:
            state = "waiting" if why_closed == NOT_READ else ON_REQUEST
            why_not = f"{state}: {why_closed}"
        elif why_not is None and ((launch or 0) > most or self._schedule.is_too_dense):
            why_not = f"{ON_REQUEST}: the trace of one step is too large"
        self._board.sources[SOURCE] = why_not or "on"
        return why_not is None

    def _estimate_load(self) -> None:
        """Note what to expect of a window."""
        self._estimated_at = time.monotonic()
        self._schedule.bound(memory_left())
        self._expected = self._load.look(self._estimated_at, self._schedule.most_events())
        self._schedule.see(self._expected.fastest_s)

    def _take(self, topology: Topology, slot: int | None) -> None:
        board, session = self._board, self._session
        assert session is not None
        # The backends may have been cleared, and on TPUs the profiler must not start before them.
        if jaxprivate.default_client() is None:
            return
        is_requested = slot is None
        self._estimate_load()
        # The current launches decide.
        if not is_requested and (self._load.is_idle or not self._is_sampled(topology)):
            return
        expected = self._expected
        seconds = self._schedule.length(expected.slowest_s, expected.per_second, requested=is_requested)
        most, recorded = self._schedule.most_events(requested=is_requested), self._load.recorder()
        try:
            taken = session.take(seconds, lambda: board.stopping or recorded() > most)
        except Refused as error:
            board.sources[SOURCE] = f"waiting: {error}"
            board.send(Window(now_ms(), 0, slot, note=str(error)))
            wait(board.wakeups.windows, SLOT_S / 2)  # so that the reason is visible for a moment
            return
        if not board.stopping:
            self._read(topology, slot, taken)

    def _read(self, topology: Topology, slot: int | None, taken: ProfiledTrace) -> None:
        cpu = time.thread_time()
        launch, most = self._expected.launch or 0, self._schedule.most_events(requested=slot is None)
        note = "" if launch <= most else f"a launch makes about {launch:,} events, a window takes {most:,}"
        every_ms = round(self._schedule.every_s * 1000)
        blank = Window(taken.at_ms, round(taken.seconds * 1e6), slot, note=note, every_ms=every_ms)
        if (read := self._read_and_send(topology, taken, blank)) is not None:
            window, events = read
            whole = _launches_of_step(window)
            cpu = taken.cpu + time.thread_time() - cpu
            self._schedule.learn(WindowResult(taken.seconds, cpu, events, len(whole), _step_s(whole)))

    def _send_capture(self, taken: ProfiledTrace | None) -> None:
        """Send what a capture contains, as a window."""
        topology = self._board.sampler.topology
        if taken is not None and topology is not None:
            self._read_and_send(
                topology, taken, Window(taken.at_ms, round(taken.seconds * 1e6), is_capture=True)
            )

    def _read_and_send(
        self, topology: Topology, taken: ProfiledTrace, blank: Window
    ) -> tuple[Window, int] | None:
        """Read a trace and send what it contains; None if something else became more urgent."""
        assert self._reader is not None
        board, slices = self._board, WorkSlices()

        def pause() -> None:
            if board.stopping or (board.capture.has_changed and board.capture.requested is not None):
                raise Unwanted
            slices.pause()

        try:
            return self._reader.read(topology, taken, blank, pause)
        except Unwanted:
            return None


def _launches_of_step(window: Window) -> list[Launch]:
    """Return the launches of the program that took most of the window, if possible one with collectives."""
    by_program: dict[int, list[Launch]] = {}
    for each in window.launches:
        by_program.setdefault(each.program, []).append(each)
    ones = [each for each in by_program.values() if any(one.collective_us for one in each)]
    return max(ones or by_program.values(), key=lambda each: sum(one.duration_us for one in each), default=[])


def _step_s(launches: list[Launch]) -> float | None:
    """Return the step time of a program with collectives; None if its launches do not show it."""
    starts = sorted(each.start_us for each in launches if each.collective_us)
    apart = [after - before for before, after in pairwise(starts)]
    if not apart:  # the duration of one launch does not show when the next one comes
        return None
    return max(statistics.median(apart), *(each.duration_us for each in launches)) / 1e6
