"""The thread that asks the libraries of the devices. The thread of the drivers may hang with the run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jaxtop_agent.core.waiting import IDLE_S, wait

if TYPE_CHECKING:
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.hardware.libraries.inspector import NcclTimesSender
    from jaxtop_agent.hardware.libraries.stuck import Stuck

# The plugin of NCCL, in the name of its library.
INSPECTOR = "inspector"


class Libraries:
    """Asks until the board stops; idle unless the run hangs or NCCL Inspector is loaded."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._stuck: Stuck | None = None
        self._inspector: NcclTimesSender | None = None

    def run(self) -> None:
        while not self._board.stopping:
            next_request_s, next_reading_s = self._request_if_stuck(), self._follow_inspector()
            wait(self._board.wakeups.libraries, min(next_request_s, next_reading_s))

    def _request_if_stuck(self) -> float:
        """Ask where the run hangs, if it does; return the seconds until it should be asked again."""
        board = self._board
        if self._stuck is None and not board.publisher.is_stuck:
            return IDLE_S
        if self._stuck is None:
            from jaxtop_agent.hardware.libraries.stuck import Stuck  # few runs hang

            self._stuck = Stuck(board)
        topology = board.sampler.topology
        return self._stuck.turn(None if topology is None else topology.vendor)

    def _follow_inspector(self) -> float:
        """Read what NCCL Inspector has timed, where it is loaded; return the seconds to the next reading."""
        if self._inspector is None and INSPECTOR not in os.environ.get("NCCL_PROFILER_PLUGIN", ""):
            return IDLE_S
        if self._inspector is None:
            from jaxtop_agent.hardware.libraries.inspector import NcclTimesSender  # few runs load it

            self._inspector = NcclTimesSender(self._board)
        return self._inspector.turn()
