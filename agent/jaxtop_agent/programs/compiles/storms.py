"""Functions that are compiled again and again: each storm is reported once, and shown until it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jaxtop.base.clock import now_ms
from jaxtop_agent import jaxprivate
from jaxtop_agent.programs.compiles.compilations import FunctionCompilations, steady_ms

if TYPE_CHECKING:
    from jaxtop_agent.core.board import Board


class Storms:
    """The current storms. The sampler checks them at each tick: programs may be read minutes apart."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._is_own: dict[str, bool] = {}
        self._reported: set[str] = set()
        # When the first steps were seen: before, the script warms up.
        self._steps_since: int | None = None

    def publish(self) -> None:
        """Put the current storms onto the board, and send an event for each new one to the viewers.

        The board is updated also without viewers, because the next viewer first receives what is on it.
        """
        board, now = self._board, steady_ms()
        if self._steps_since is None and board.sampler.rhythm is not None:
            self._steps_since = now
        compiled = board.compiles.compiled.copy().items()
        storms = {name: each for name, each in compiled if self._is_storm(name, each, now)}
        self._reported &= storms.keys()
        if board.is_watched:
            for name in sorted(storms.keys() - self._reported):
                board.report("warning", "recompiling", storms[name].storm_text(now))
            self._reported.update(storms)
        if storms.keys() == board.programs.recompiling:
            return
        board.programs.recompiling = frozenset(storms)
        if board.programs.listed is not None:
            board.programs.listed = msgspec.structs.replace(
                board.programs.listed,
                compiles=board.programs.listed.compiles | {name: each.count for name, each in storms.items()},
                recompiling=tuple(sorted(storms)),
            )
            board.send(msgspec.structs.replace(board.programs.listed, at_ms=now_ms()))

    def _is_storm(self, name: str, compiled: FunctionCompilations, now: int) -> bool:
        if self._steps_since is not None and compiled.is_eager_storm(now, self._steps_since):
            return True
        return compiled.is_storm(now) and not self._is_jaxs(name, compiled)

    def _is_jaxs(self, name: str, compiled: FunctionCompilations) -> bool:
        """Return whether it is one of JAX's own functions, by its name if nothing better is known."""
        if compiled.is_the_scripts:
            return False
        if name not in self._is_own:
            self._is_own[name] = compiled.function in jaxprivate.own_functions()
        return self._is_own[name]
