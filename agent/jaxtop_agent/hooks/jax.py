"""What JAX calls on the user's threads: put in once, kept, and taken out at the end.

A hook that this JAX does not have is off by itself; the figures of the others go on. Hooks are put in at
once, before the rest of the agent is loaded: processes that start together count the same launches.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop_agent.collectors.compiles import Compiles
from jaxtop_agent.collectors.launches import Launches

if TYPE_CHECKING:
    from jaxtop.wire import Compiling
    from jaxtop_agent.core.board import Board


class Hooks:
    """Their counts are read from any thread."""

    def __init__(self) -> None:
        self._board: Board | None = None
        self._states: dict[str, str | Exception] = {}
        self._compiles: Compiles | None = None
        self.launched: Launches | None = None

    def install(self) -> None:
        """Put them into JAX; on the user's thread."""
        try:
            launches = Launches()
            self._states[Launches.name] = launches.install()
            self.launched = launches
        except Exception as error:
            self._states[Launches.name] = error
        try:
            compiles = Compiles()
            compiles.install()
            self._states[Compiles.name] = "on"
            self._compiles = compiles
        except Exception as error:
            self._states[Compiles.name] = error

    def attach(self, board: Board) -> None:
        """Report to this board from now on."""
        from jaxtop_agent.core.board import reason  # loaded by whoever has a board

        self._board = board
        for name, state in self._states.items():
            board.sources[name] = state if isinstance(state, str) else reason(state)
        if self._compiles is not None:
            self._compiles.attach(board)

    def keep(self) -> None:
        """Put back what JAX itself took out, and see whether launches are missed."""
        if self.launched is not None and self._board is not None:
            for window in self._board.windows[-1:]:
                self.launched.compare(window)
            self._board.sources[Launches.name] = self.launched.keep()

    def uninstall(self) -> None:
        for hook in (self.launched, self._compiles):
            if hook is not None:
                with suppress(Exception):  # where this JAX cannot, the hook of a stopped agent only counts
                    hook.uninstall()

    def launches(self) -> dict[str, int]:
        """Launches by function name since the start."""
        return self.launched.totals() if self.launched else {}

    def last_launch(self) -> tuple[float, str]:
        """When something was launched last, by the monotonic clock, and what."""
        return self.launched.last() if self.launched else (0.0, "")

    def compiling(self) -> tuple[Compiling, ...]:
        """What is being compiled now."""
        return self._compiles.running() if self._compiles else ()

    def compiled_at(self) -> float:
        """When a compilation last ended, by the monotonic clock."""
        return self._compiles.last_ended if self._compiles else 0.0
