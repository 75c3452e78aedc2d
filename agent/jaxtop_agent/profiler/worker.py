"""The thread that takes windows: it waits for the slot, takes a window, reads it and sends it."""

from __future__ import annotations

import math
import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING

from jaxtop import traces
from jaxtop.clock import now_ms
from jaxtop.wire import Window
from jaxtop_agent import jaxprivate
from jaxtop_agent.core.waiting import IDLE_S, Slices, wait
from jaxtop_agent.profiler import operations, rows
from jaxtop_agent.profiler.capture import Capturing
from jaxtop_agent.profiler.load import NOT_READ, Expected, Load, Steps
from jaxtop_agent.profiler.schedule import (
    MOST_EVENTS_UNDER_GIL,
    OFF,
    ON_REQUEST,
    SLOT_S,
    Result,
    Schedule,
    why_not_sampled,
)
from jaxtop_agent.profiler.session import InUse, Sessions, Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jaxtop.wire import Launch
    from jaxtop_agent.core.board import Board, Topology
    from jaxtop_agent.steps.progress import Progress

SOURCE = "collectives"
# Names of operations make a window more expensive, so only some windows have them: one a minute, and sooner
# if the last window held a program whose operations were never read.
OPERATIONS_EVERY_S, NEW_OPERATIONS_EVERY_S = 60.0, 8.0
# The windows kept for new viewers: as many as a first verdict needs.
WINDOWS_FOR_NEW_VIEWERS = 4


class Windows:
    """The worker. It runs until the board stops it, and without viewers takes only requested windows."""

    def __init__(
        self,
        board: Board,
        launches: Callable[[], Mapping[str, int]],
        chosen: str,
        progress: Progress | None = None,
    ) -> None:
        """Create the worker; `chosen` is the policy, `progress` what the script reports of its steps."""
        self._board = board
        self._policy = chosen
        self._load = Load(board, launches)
        self._expected = Expected()
        self._looked = -math.inf
        self._schedule = Schedule()
        self._progress = progress
        self._sessions: Sessions | None = None
        self._profiler: jaxprivate.Profiler | None = None
        self._was_watched = False
        self._captured = 0  # the number of requests that have been served
        self._rhythm_since = 0
        self._reducing: set[str] = set()
        self._named_at = -math.inf  # when a window last showed operations
        self._named: set[str] = set()  # the programs in such windows
        self._has_unnamed = False  # whether the last window held others
        self._shown: operations.Shown | None = None  # the operations in the last window that showed some
        board.sources[SOURCE] = (
            "off: switched off (JAXTOP_COLLECTIVES, or collectives= of agent.start)"
            if chosen == OFF
            else "waiting: for devices"
        )

    def forsake(self) -> None:
        """Restore the script's lock in a forked child, as if no window had been open."""
        if self._sessions is not None:
            self._sessions.forsake()

    def run(self) -> None:
        board = self._board
        if self._policy == OFF:
            board.can_capture = False
            return
        try:
            profiler = self._profiler = jaxprivate.Profiler()
            self._sessions = Sessions(profiler, board.windows_bell)
            if not profiler.frees_the_gil:
                self._schedule = Schedule(MOST_EVENTS_UNDER_GIL)
            sessions = self._sessions
            capturing = Capturing(board, self._load, self._schedule, self._steps)
            while not board.stopping:
                if board.capture.has_changed:
                    capturing.serve(sessions)
                else:
                    self._turn()
        except BaseException:  # no retry: an error in here may harm the script's process
            board.can_capture = False
            raise

    def _steps(self) -> Steps | None:
        return self._load.steps(0 if self._progress is None else self._progress.calls)

    def _turn(self) -> None:
        """Wait for the next slot, request or viewer, and take a window if one is due."""
        board = self._board
        self._send_operations()
        topology = board.topology
        sampled = topology is not None and self._is_sampled(topology)
        if board.is_watched and not self._was_watched:
            self._schedule.begin(time.time() + board.clock_offset)
            self._named_at = -math.inf
        self._was_watched = board.is_watched
        if self._has_new_rhythm():
            self._rhythm_since = 0 if board.rhythm is None else board.rhythm.since_ms
            self._reducing |= self._load.reducing()
            self._schedule.renew(time.time() + board.clock_offset)
        asked = board.captures_asked > self._captured and topology is not None
        if not asked and not (sampled and board.is_watched):
            # Later launches may be small enough. Slow steps are launched repeatedly only in a longer time.
            if board.is_watched and time.monotonic() - self._looked >= SLOT_S:
                self._look()
            wait(board.windows_bell, 1.0 if board.is_watched or topology is None else IDLE_S)
            return
        now = time.time() + board.clock_offset
        slot = None if asked else self._schedule.next_slot(now)
        at = self._schedule.requested_at(board.capture_at, now) if slot is None else slot * SLOT_S
        if slot is not None:
            self._look()  # so that the launches until the slot decide the window's length
        if self._until(at, asked=asked) and topology is not None:
            self._captured = board.captures_asked
            self._take(topology, slot)

    def _until(self, at: float, *, asked: bool) -> bool:
        """Wait for this time of the common clock; return False if the wait is interrupted."""
        board = self._board
        while (left := at - time.time() - board.clock_offset) > 0:
            rang = wait(board.windows_bell, min(left, 2 * SLOT_S))
            self._send_operations()
            if board.stopping or board.capture.has_changed:
                return False
            if asked:
                continue
            if rang and (board.captures_asked > self._captured or not board.is_watched):
                return False
            if self._has_new_rhythm():
                return False
        return not board.stopping

    def _has_new_rhythm(self) -> bool:
        """Return whether step times, or the programs with collectives, changed since windows were planned."""
        rhythm = self._board.rhythm
        if rhythm is not None and rhythm.before_us is not None and rhythm.since_ms != self._rhythm_since:
            return True
        # All processes launch a new program in the same step, whereas each notices another pace by itself.
        return not self._load.reducing() <= self._reducing

    def _is_sampled(self, topology: Topology) -> bool:
        assert self._profiler is not None
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

    def _look(self) -> None:
        """Note what to expect of a window."""
        self._looked = time.monotonic()
        self._expected = self._load.look(self._looked, self._schedule.most_events())
        self._schedule.see(self._expected.fastest_s)

    def _take(self, topology: Topology, slot: int | None) -> None:
        board, sessions = self._board, self._sessions
        assert sessions is not None
        # The backends may have been cleared, and on TPUs the profiler must not start before them.
        if jaxprivate.default_client() is None:
            return
        is_asked = slot is None
        self._look()
        # The current launches decide.
        if not is_asked and (self._load.is_idle or not self._is_sampled(topology)):
            return
        expected = self._expected
        seconds = self._schedule.length(expected.slowest_s, expected.per_second, requested=is_asked)
        most, recorded = self._schedule.most_events(requested=is_asked), self._load.recorder()
        try:
            taken = sessions.take(seconds, lambda: board.stopping or recorded() > most)
        except InUse as error:
            board.sources[SOURCE] = f"waiting: {error}"
            board.send(Window(now_ms(), 0, slot, note=str(error)))
            wait(board.windows_bell, SLOT_S / 2)  # so that the reason is visible for a moment
            return
        if not board.stopping:
            self._read(topology, slot, taken)

    def _read(self, topology: Topology, slot: int | None, taken: Taken) -> None:
        board = self._board
        cpu = time.thread_time()
        loaded = board.loaded
        devices = [device.id for device in topology.devices]
        ordinals = {
            place if device.local_id is None else device.local_id: device.id
            for place, device in enumerate(topology.devices)
        }
        profile, taken.trace = taken.trace, None
        every = NEW_OPERATIONS_EVERY_S if self._has_unnamed else OPERATIONS_EVERY_S
        has_names = slot is None or time.monotonic() - self._named_at >= every
        seen = traces.read(
            topology.platform,
            profile,
            _wanted(board),
            ordinals,
            has_names=has_names,
            pause=Slices().pause,
        )
        del profile
        launch, most = self._expected.launch or 0, self._schedule.most_events(requested=slot is None)
        note = "" if launch <= most else f"a launch makes about {launch:,} events, a window takes {most:,}"
        blank = Window(taken.at_ms, round(taken.seconds * 1e6), slot, note=note)
        limit = rows.room(topology.process_count, len(devices))
        window = rows.message(seen, devices, loaded, limit, blank)
        cpu = taken.cpu + time.thread_time() - cpu
        whole = _of_step(window)
        self._schedule.learn(Result(taken.seconds, cpu, seen.events, len(whole), _step_s(whole)))
        board.windows = (*board.windows, window)[-WINDOWS_FOR_NEW_VIEWERS:]
        board.send(window)
        if has_names:
            self._shown = operations.Shown(seen, taken.at_ms)
            if self._send_operations():
                self._named_at = time.monotonic()
        programs = {name for name, _ in window.programs}
        if has_names:
            self._named = (self._named & {each.name for each in loaded}) | programs
        self._has_unnamed = not programs <= self._named

    def _send_operations(self) -> bool:
        """Send what is new of the last window: later, too, of programs that had not been read by then."""
        board = self._board
        if self._shown is None:
            return False
        found = self._shown.news(board.loaded, board.executed)
        if self._shown.is_final:
            self._shown = None
        if not found:
            return False
        kept = {(each.program, each.fingerprint): each for each in (*board.operations, *found)}
        names = {each.name for each in board.loaded}
        board.operations = tuple(each for each in kept.values() if each.program in names and each.launches)[
            -operations.MOST_KEPT :
        ]
        for each in found:
            board.send(each)
        return True


def _wanted(board: Board) -> traces.Wanted:
    """Return the collectives by program name, for all programs of a name: a trace has only the name."""
    names: dict[str, dict[str, str]] = {}
    partial = set()
    for key, inventory in board.inventories.items():
        ops = names.setdefault(inventory.program, {})
        ops.update((each.op, each.op) for each in inventory.collectives)
        ops.update(board.ends.get(key, {}))
        if inventory.rest or inventory.unread or inventory.why_not:
            partial.add(inventory.program)
    return traces.Wanted(names, frozenset(partial))


def _of_step(window: Window) -> list[Launch]:
    """Return the launches of the program that took most of the window, of those with collectives if any."""
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
