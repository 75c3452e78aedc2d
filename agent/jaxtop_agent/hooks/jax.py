"""The hooks that JAX calls on the user's threads: installed once, kept in place, and removed at the end.

If this JAX lacks one hook, only the figures of that hook are off. Hooks are installed at once, before the
rest of the agent is loaded, so that processes that start together count the same launches.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from jaxtop_agent.hooks.checkpoints import CheckpointReports
from jaxtop_agent.hooks.compiles import Compiles
from jaxtop_agent.hooks.exceptions import RuntimeExceptions
from jaxtop_agent.hooks.garbage import GarbageClock
from jaxtop_agent.hooks.launches import Launches
from jaxtop_agent.hooks.trackers import TrackerCalls

if TYPE_CHECKING:
    from jaxtop.wire import Compiling
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.hooks.compiles import CompiledSpan
    from jaxtop_agent.hooks.garbage import GarbageRuns
    from jaxtop_agent.hooks.launches import NumberedLaunch


T = TypeVar("T", Launches, Compiles, RuntimeExceptions, CheckpointReports, TrackerCalls)


class Hooks:
    """The installed hooks; any thread may read their counts."""

    def __init__(self) -> None:
        self._board: Board | None = None
        self._states: dict[str, str | Exception] = {}
        self._compiles: Compiles | None = None
        self.launched: Launches | None = None
        self.raised: RuntimeExceptions | None = None
        self.checkpoints: CheckpointReports | None = None
        self.trackers: TrackerCalls | None = None
        self._garbage = GarbageClock(self._is_compiling_here)

    def install(self) -> None:
        """Install the hooks in JAX; called on the user's thread."""
        self._garbage.install()
        self.launched = self._installed(Launches)
        self._compiles = self._installed(Compiles)
        self.raised = self._installed(RuntimeExceptions, self._launching)
        self.checkpoints = self._installed(CheckpointReports)
        self.trackers = self._installed(TrackerCalls)

    def _launching(self) -> str:
        return "" if self.launched is None else self.launched.launching()

    def _is_compiling_here(self) -> bool:
        return self._compiles is not None and self._compiles.is_of_this_thread()

    def _installed(self, kind: type[T], *arguments: Any) -> T | None:
        try:
            hook = kind(*arguments)
            self._states[kind.name] = hook.install()
        except Exception as error:
            self._states[kind.name] = error
            return None
        return hook

    def attach(self, board: Board) -> None:
        """Report to this board from now on."""
        from jaxtop.base import debuglog

        # The caller has a board, so this module is already loaded.
        from jaxtop_agent.core.board import off_reason

        self._board = board
        for name, state in self._states.items():
            board.sources[name] = state if isinstance(state, str) else off_reason(state)
            if isinstance(state, Exception):
                debuglog.warning("agent", f"the hook for {name} cannot be installed", error=state)
        if self._compiles is not None:
            self._compiles.attach(board)

    def restore(self) -> None:
        """Restore hooks that JAX itself removed, and check whether launches are missed."""
        if self.launched is not None and self._board is not None:
            for window in self._board.windows.latest[-1:]:
                self.launched.compare(window)
            self._board.sources[Launches.name] = self.launched.restore()

    def uninstall(self) -> None:
        self._garbage.uninstall()
        for hook in (self.launched, self._compiles, self.raised, self.checkpoints, self.trackers):
            if hook is not None:
                with suppress(Exception):  # a hook that JAX cannot remove only goes on counting
                    hook.uninstall()

    def launches(self) -> dict[str, int]:
        """Return the number of launches by function name since the start."""
        return self.launched.totals() if self.launched else {}

    def functions(self) -> frozenset[str]:
        """Return the names of the functions that were launched since the start."""
        return self.launched.functions() if self.launched else frozenset()

    def numbered(self) -> list[NumberedLaunch]:
        """Return the remembered launches with their numbers."""
        return self.launched.numbered() if self.launched else []

    def last_launch(self) -> tuple[float, str]:
        """Return the time of the last launch, on the monotonic clock, and the function's name."""
        return self.launched.last() if self.launched else (0.0, "")

    def compiling(self) -> tuple[Compiling, ...]:
        return self._compiles.running() if self._compiles else ()

    def garbage(self) -> GarbageRuns:
        """Return the runs of Python's garbage collector so far."""
        return self._garbage.read()

    def collected(self) -> list[tuple[float, float]]:
        """Return the start and the end of the last long garbage collections, on the monotonic clock."""
        return list(self._garbage.spans.copy())

    def compiled(self) -> list[CompiledSpan]:
        """Return the last compilations that have ended."""
        return list(self._compiles.spans.copy()) if self._compiles else []

    def compiled_at(self) -> float:
        return self._compiles.last_ended if self._compiles else 0.0
