"""The thread that writes reports into the script's own runs of trackers, at most once a minute."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jaxtop.base import debuglog
from jaxtop_agent.core.budget import MOST_FAILURES
from jaxtop_agent.core.waiting import wait
from jaxtop_agent.reporting.figures import Figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop_agent.core.board import Board
    from jaxtop_agent.reporting.destinations import TrackerRun
    from jaxtop_agent.reporting.figures import TrackerReport

EVERY_S, LOOK_EVERY_S = 60.0, 2.0


class TrackerReporter:
    """Only process 0 of a run reports. A destination that fails three times in a row is off from then on."""

    def __init__(self, board: Board, destinations: Sequence[TrackerRun]) -> None:
        self._board = board
        self._failures_in_a_row = dict.fromkeys(destinations, 0)
        # A server may not answer for minutes. The end of the script does not wait for that.
        self.is_in_library = False
        for each in destinations:
            self._state(each, "waiting: the script has no run open")

    def run(self) -> None:
        board = self._board
        if not self._is_of_process_0():
            return
        board.is_reporting = True
        figures, due = Figures(board), time.monotonic() + EVERY_S
        while not board.stopping and self._failures_in_a_row:
            wait(board.wakeups.reports, due - time.monotonic())
            now = time.monotonic()
            if board.stopping or now < due:
                continue
            due = now + EVERY_S
            self._write(figures.read())
        board.is_reporting = False

    def _is_of_process_0(self) -> bool:
        board = self._board
        while board.sampler.topology is None and not board.stopping:
            wait(board.wakeups.reports, LOOK_EVERY_S)
        topology = board.sampler.topology
        if topology is not None and topology.process_index:
            for each in self._failures_in_a_row:
                self._state(each, "waiting: process 0 reports")
        return topology is not None and not topology.process_index

    def _write(self, report: TrackerReport) -> None:
        for each in list(self._failures_in_a_row):
            self.is_in_library = True
            try:
                is_open = each.write(report)
            except Exception as error:
                self._failures_in_a_row[each] += 1
                debuglog.warning("reports", f"nothing is written to {each.name}", error=error)
                if self._failures_in_a_row[each] >= MOST_FAILURES:
                    del self._failures_in_a_row[each]
                    self._board.switch_off(f"report to {each.name}", error)
            else:
                self._failures_in_a_row[each] = 0
                self._state(each, "on" if is_open else "waiting: the script has no run open")
            finally:
                self.is_in_library = False

    def _state(self, destination: TrackerRun, state: str) -> None:
        self._board.sources[f"report to {destination.name}"] = state
