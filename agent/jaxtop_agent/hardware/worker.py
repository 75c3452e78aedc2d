"""The thread that calls the drivers. A driver may hang for minutes; then only this thread hangs."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base import debuglog
from jaxtop_agent.core import budget
from jaxtop_agent.core.board import NOTHING, Board, Readings, Topology, off_reason
from jaxtop_agent.core.waiting import IDLE_S, wait
from jaxtop_agent.hardware.reader import DriverReader, Off, columns

if TYPE_CHECKING:
    from jaxtop_agent.hardware.reader import Report

SOURCE = "hardware"
# A service may start later, and a driver may be loaded later.
RETRY_S = 60.0
# Readings stay current for this many intervals.
VALID_INTERVALS = 3
NO_HARDWARE = "off: these devices are the host's own CPUs"


def prepare() -> None:
    """Load the libraries that the drivers need, before any fork."""
    with suppress(Exception):
        if Path("/dev/nvidiactl").exists():
            import pynvml  # noqa: F401
        if Path("/dev/accel0").exists() or Path("/dev/vfio/0").exists():
            from jaxtop_agent.hardware import grpc  # noqa: F401


class Hardware:
    """Reads the hardware until the board stops; idle without viewers, and where the devices are CPUs."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._topology: Topology | None = None
        self._reader: DriverReader | None = None
        self._failures_in_a_row = 0
        self._throttle = budget.Throttle(budget.HARDWARE)
        board.sources[SOURCE] = "waiting: for devices"

    def run(self) -> None:
        board = self._board
        try:
            while not board.stopping:
                wait(board.wakeups.hardware, self._turn())
        finally:
            self._close()

    def _turn(self) -> float:
        """Read if there is a viewer; return the seconds to the next turn."""
        board, topology = self._board, self._board.sampler.topology
        if topology is not self._topology:
            self._close()
            board.hardware.uuids = ()
            self._topology, self._failures_in_a_row, self._throttle = (
                topology,
                0,
                budget.Throttle(budget.HARDWARE),
            )
        if topology is not None and topology.vendor is None:
            self._set_state(NO_HARDWARE)
        elif topology is not None and board.is_watched:
            return self._read(topology)
        if board.hardware.readings is not NOTHING:
            board.hardware.readings = NOTHING
            if self._reader is not None:
                self._reader.rest()
        return IDLE_S

    def _read(self, topology: Topology) -> float:
        board = self._board
        started, cpu = time.monotonic(), time.thread_time()
        board.hardware.requested_at = started
        try:
            if self._reader is None:
                self._reader = _open(topology, board.report)
                board.hardware.uuids = self._reader.uuids
            read = columns(self._reader.read(started))
        except Off as off:
            self._close()
            self._set_state(f"off: {off}")
            return RETRY_S
        except Exception as error:
            return self._fail(error)
        finally:
            board.hardware.requested_at = None
        self._failures_in_a_row = 0
        pause = max(board.requests.interval, self._throttle.pause_after(time.thread_time() - cpu))
        took = time.monotonic() - started
        board.hardware.readings = Readings(started, VALID_INTERVALS * max(pause, took), read)
        remarks = self._reader.remarks()
        self._set_state(f"on: {remarks}" if remarks else "on")
        return max(0.0, pause - took)

    def _fail(self, error: Exception) -> float:
        """Retry after the usual interval; after several failures close the reader and reopen it later."""
        debuglog.warning("hardware", "the driver cannot be read", error=error)
        self._board.hardware.readings = NOTHING
        self._failures_in_a_row += 1
        if self._failures_in_a_row < budget.MOST_FAILURES and self._reader is not None:
            return self._board.requests.interval
        self._failures_in_a_row = 0
        self._close()
        self._set_state(off_reason(error))
        return RETRY_S

    def _close(self) -> None:
        self._board.hardware.readings = NOTHING
        reader, self._reader = self._reader, None
        if reader is not None:
            with suppress(Exception):
                reader.close()

    def _set_state(self, state: str) -> None:
        if self._board.sources.get(SOURCE) != state:
            self._board.sources[SOURCE] = state
            self._board.wakeups.publisher.set()


def _open(topology: Topology, report: Report) -> DriverReader:
    match topology.vendor:
        case "nvidia":
            from jaxtop_agent.hardware.nvidia import Nvidia  # a library of 8,000 lines that CPUs do not need

            return Nvidia(topology.devices, report)
        case "amd":
            from jaxtop_agent.hardware.amd import Amd

            return Amd(topology.devices)
        case _:
            from jaxtop_agent.hardware.tpu import Tpu  # optional libraries

            return Tpu(topology.devices)
