"""Detects stalls and reports them in the pulse, and sends the threads' stacks to viewers."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base import debuglog
from jaxtop.base.clock import now_ms
from jaxtop.base.names import program_of
from jaxtop_agent.stalls import stacks
from jaxtop_agent.stalls.caught_exceptions import CaughtExceptions
from jaxtop_agent.stalls.launch_gaps import LaunchGaps, LongGap, LullDetector

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.core.board import Board
    from jaxtop_agent.hooks.jax import Hooks
    from jaxtop_agent.stalls.native import NativeStacks
    from jaxtop_agent.steps.progress import Progress

# Looks at shorter intervals would take every second launch for a separate rhythm.
LOOK_INTERVAL_S = 0.9
REPEAT_INTERVAL_S = 10.0
# Without a rhythm, a process is stuck after a lull of this many seconds that is also this many times the
# longest.
LONG_LULL, TIMES_A_LULL = 15.0, 3
NAME = "stalls"
STEPS = "agent.step()"
UNCOUNTED = "off: not all launches are counted"
INTERACTIVE = "off: a person may be typing (interactive interpreter)"


class Stalls:
    """Detects stalls; used on the publisher's thread only. A failure here turns off only this source."""

    def __init__(
        self,
        board: Board,
        hooks: Hooks,
        progress: Progress,
        own_threads: Callable[[], frozenset[int]],
        native: NativeStacks | None = None,
    ) -> None:
        self._board = board
        self._hooks = hooks
        self._progress = progress
        self._own_threads = own_threads
        self._native = native
        self._gaps = LaunchGaps()
        self._lull = LullDetector(time.monotonic())
        self._due = 0.0
        self._sent_at: float | None = None
        self._sent: tuple[wire.Thread, ...] = ()
        self._native_sent = 0
        self._is_broken = False
        self.stall: wire.Stall | None = None
        self.lull: wire.Lull | None = None
        self.caught = CaughtExceptions(hooks.raised, own_threads)
        board.sources[NAME] = "on"

    def check_progress(self, now: float) -> wire.Stacks | None:
        """Check whether the process makes progress; return the stacks if they should be sent now."""
        if self._is_broken or now < self._due:
            return None
        self._due = now + LOOK_INTERVAL_S
        try:
            return self._check_progress(now)
        except Exception as error:
            self._break(error)
            return None

    @property
    def is_still(self) -> bool:
        """Whether the process has done nothing for some seconds."""
        return self.stall is not None or self.lull is not None

    def stacks(self) -> wire.Stacks | None:
        """Return the stacks of all threads; None if they cannot be read, and the source then says why."""
        try:
            known = self._native.current() if self._native is not None else ({}, [])
            threads = stacks.read(self._own_threads(), self._functions(), *known)
            return wire.Stacks(now_ms(), threads)
        except Exception as error:
            self._break(error)
            return None

    def stacks_for_viewer(self) -> wire.Stacks | None:
        """Return the stacks that a viewer asked for; if the process is still, native ones follow."""
        if self.is_still:
            self.begin_native()
        return self.stacks()

    def begin_native(self) -> None:
        """Start to read native stacks; `stacks` has them once they have been read."""
        if self._native is not None:
            self._native.begin(time.monotonic())

    def wait_for_native(self, seconds: float) -> None:
        """Wait for native stacks, at most so long."""
        if self._native is not None:
            self._native.wait(seconds)

    def _functions(self) -> set[str]:
        compiled = self._board.compiles.compiled.copy().values()
        return {*self._hooks.functions(), *(each.function for each in compiled)}

    def _check_progress(self, now: float) -> wire.Stacks | None:
        counts = self._hooks.launches()
        counts[STEPS] = self._progress.calls
        compiling, compiled_at = bool(self._hooks.compiling()), self._hooks.compiled_at()
        gap = self._gaps.update(now, counts, compiling=compiling, compiled_at=compiled_at)
        launched_at, function = self._hooks.last_launch()
        done_at = max(launched_at, self._progress.last_at)
        lull = self._lull.update(now, done_at, compiling=compiling, compiled_at=compiled_at)
        if not self._can_judge():
            gap = lull = None
        self._note(gap, now)
        longest_ms = round(self._lull.longest * 1000)
        moved = self._board.sampler.moved
        self.lull = None if lull is None else wire.Lull(function, _wall_ms(lull, now), longest_ms, moved)
        self._note_stuck(0.0 if lull is None else now - lull)
        if not self.is_still or not self._board.is_watched:
            self._sent_at = None
            if self._native is not None and not self.is_still:
                self._native.forget()
            return None
        has_more = self._has_native_stacks()
        if self._sent_at is not None and now - self._sent_at < REPEAT_INTERVAL_S and not has_more:
            return None
        is_first, self._sent_at = self._sent_at is None, now
        found = self.stacks()
        if found is None or (found.threads == self._sent and not is_first):
            return None
        self._sent = found.threads
        return found

    def _has_native_stacks(self) -> bool:
        """Return whether there are native stacks that were not sent; begin to read them if it is time."""
        if self._native is None:
            return False
        if self._board.publisher.is_stuck:
            self.begin_native()
        has_more = self._native.number != self._native_sent
        self._native_sent = self._native.number
        return has_more

    def _can_judge(self) -> bool:
        """Whether a time without launches can mean a stall in this process."""
        if hasattr(sys, "ps1") or "ipykernel" in sys.modules:
            state = INTERACTIVE
        elif self._board.sources.get("launches") != "on":
            state = UNCOUNTED
        else:
            state = "on"
        self._board.sources[NAME] = state
        return state == "on"

    def _note(self, gap: LongGap | None, now: float) -> None:
        if gap is None:
            if self.stall is not None:
                self._board.pulse_now = True
            self.stall = None
        elif self.stall is None:
            since_ms = _wall_ms(gap.since, now)
            self.stall = wire.Stall(self._carrier(), since_ms, round(gap.usual * 1000))
            self._board.pulse_now = True

    def _note_stuck(self, lull_s: float) -> None:
        """Publish whether it is time to ask the libraries of the devices, and wake the thread that asks."""
        longest = max(LONG_LULL, TIMES_A_LULL * self._lull.longest)
        is_stuck = self.stall is not None or lull_s >= longest
        if is_stuck and not self._board.publisher.is_stuck:
            self._board.wakeups.libraries.set()
        self._board.publisher.is_stuck = is_stuck

    def _carrier(self) -> str:
        """Return the function that stands for the rhythm: the one in it that compiled longest."""
        names = self._hooks.launches()
        compiled = self._board.compiles.compiled.copy()
        variants = {name: compiled.get(program_of(name)) for name in names}
        weights = {name: each.last_ms for name, each in variants.items() if each is not None}
        return self._gaps.carrier({**weights, STEPS: -1})

    def _break(self, error: Exception) -> None:
        debuglog.warning("publisher", "stalls cannot be detected any more", error=error)
        self._is_broken = True
        self.stall = self.lull = None
        self._board.publisher.is_stuck = False
        self._board.switch_off(NAME, error)


def _wall_ms(at: float, now: float) -> int:
    """Return the wall time of the monotonic time `at`; `now` is the current monotonic time."""
    return now_ms() - round((now - at) * 1000)
