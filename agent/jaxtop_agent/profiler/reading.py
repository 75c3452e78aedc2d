"""From a trace to messages: the launches and collectives in it, and the operations of its programs."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from msgspec import structs

from jaxtop import traces
from jaxtop.traces.parts import ONE_WAY
from jaxtop_agent.profiler import operations, rows
from jaxtop_agent.profiler.numbers import numbers
from jaxtop_agent.profiler.trace import ProfileTrace
from jaxtop_agent.programs.loaded_executables import Numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.wire import Window
    from jaxtop_agent.core.board import Board, Topology
    from jaxtop_agent.hooks.launches import NumberedLaunch
    from jaxtop_agent.jaxprivate import Profiler
    from jaxtop_agent.profiler.session import ProfiledTrace

# Only the beginning of a larger trace is read, such as that of a long capture. This many bytes are about
# 170,000 events of a CPU, which take 0.8 s of CPU to read.
MOST_BYTES = 8_000_000
# Names of operations make a window more expensive, so only some windows have them: one a minute, and sooner
# if the last window held a program whose operations were never read.
OPERATIONS_EVERY_S, NEW_OPERATIONS_EVERY_S = 60.0, 8.0
# The last windows, from which the steps are learned.
STEP_WINDOWS = 4


class TraceReader:
    """Reads the traces of windows and captures, and sends what they contain."""

    def __init__(
        self, board: Board, profiler: Profiler, numbered: Callable[[], Sequence[NumberedLaunch]] = tuple
    ) -> None:
        """Create a reader; `numbered` returns the latest launches of the process with their numbers."""
        self._board = board
        self._numbered = numbered
        self._profiler = profiler
        self._named_at = -math.inf  # when a window last showed operations
        self._named: set[str] = set()  # the programs in such windows
        self._has_unnamed = False  # whether the last window held others
        # The collectives before which cores waited in a barrier, by program and name. A trace may lose all.
        self._barriers: frozenset[tuple[str, str]] = frozenset()
        self._numbers = Numbers()
        self._shown: operations.Shown | None = None  # the operations in the last trace that showed some

    def begin(self) -> None:
        """Have the next window show operations, for a new viewer."""
        self._named_at = -math.inf

    def read(
        self, topology: Topology, taken: ProfiledTrace, blank: Window, pause: Callable[[], object]
    ) -> tuple[Window, int]:
        """Send what a trace contains; return its window message and the number of its events.

        `blank` has the fields of the message that are already known; `pause` is called between events.
        """
        board = self._board
        loaded = board.programs.loaded
        devices = [device.id for device in topology.devices]
        ordinals = {
            place if device.local_id is None else device.local_id: device.id
            for place, device in enumerate(topology.devices)
        }
        trace = ProfileTrace(taken.trace, self._profiler.parse, taken.seconds, MOST_BYTES)
        taken.trace = b""
        every = NEW_OPERATIONS_EVERY_S if self._has_unnamed else OPERATIONS_EVERY_S
        has_names = blank.slot is None or time.monotonic() - self._named_at >= every
        seen = traces.read(
            topology.platform,
            trace,
            _wanted(board, self._barriers),
            ordinals,
            has_names=has_names,
            pause=pause,
        )
        del trace
        names = {each.name for each in loaded}
        seen_now = ((op.module, op.name) for op in seen.ops if op.has_barrier)
        self._barriers = frozenset(each for each in (*self._barriers, *seen_now) if each[0] in names)
        limit = rows.room(topology.process_count, len(devices))
        known: dict[tuple[str, int], int] = {}
        if not seen.is_shared and topology.process_count > 1:
            known = numbers(seen, self._numbered(), round(taken.began * 1e9))
            if (error := board.registrar.clock_error) is not None:
                common = round((taken.wall + board.registrar.clock_offset) * 1e6)
                blank = structs.replace(blank, common_us=common, clock_error_us=round(error * 1e6))
        loaded = self._numbers.learn(loaded, ((each.module, each.number) for each in seen.spans))
        window = rows.message(seen, devices, loaded, limit, blank, numbers=known)
        board.windows.latest = (*board.windows.latest, window)[-STEP_WINDOWS:]
        board.send(window)
        programs = {name for name, _ in window.programs}
        if has_names and window.launches:
            self._shown = operations.Shown(seen, taken.at_ms)
            if self.send_operations():
                self._named_at = time.monotonic()
            self._named = (self._named & names) | programs
        self._has_unnamed = not programs <= self._named
        return window, seen.events

    def send_operations(self) -> bool:
        """Send what is new in the last trace, also for programs that have been read since."""
        board = self._board
        if self._shown is None:
            return False
        loaded = self._numbers.learn(board.programs.loaded)
        found = self._shown.news(loaded, board.programs.executed)
        if self._shown.is_final:
            self._shown = None
        if not found:
            return False
        for each in found:
            board.send(each)
        return True


def _wanted(board: Board, barriers: frozenset[tuple[str, str]]) -> traces.WantedCollectives:
    """Return the collectives by program name, for all programs of a name: a trace has only the name."""
    names: dict[str, dict[str, str]] = {}
    partial: set[str] = set()
    one_way: set[tuple[str, str]] = set()
    for key, inventory in board.programs.inventories.items():
        ops = names.setdefault(inventory.program, {})
        ops.update((each.op, each.op) for each in inventory.collectives)
        ops.update(board.programs.ends.get(key, {}))
        one_way.update((inventory.program, each.op) for each in inventory.collectives if each.kind in ONE_WAY)
        if inventory.rest or inventory.unread or inventory.why_not:
            partial.add(inventory.program)
    return traces.WantedCollectives(names, frozenset(partial), frozenset(one_way), barriers)
