"""Asks the libraries of the devices where the run hangs, while this process launches nothing.

On TPUs every process asks the runtime of its own machine. NCCL asks all processes for each answer, so only
process 0 asks NCCL.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import msgspec

from jaxtop import wire
from jaxtop.base import debuglog
from jaxtop.base.clock import now_ms
from jaxtop_agent.core.board import off_reason
from jaxtop_agent.core.waiting import IDLE_S
from jaxtop_agent.hardware.libraries import ras, ras_answers
from jaxtop_agent.hardware.reader import Off

if TYPE_CHECKING:
    from jaxtop_agent.core.board import Board, Topology

NCCL, CORES = "nccl", "tpu cores"
# Seconds from the first request to the second, which shows whether something still moves.
SECOND_REQUEST_S = 5.0
# Seconds between two later requests.
REQUEST_INTERVAL_S = 30.0
# Runs of one user on one machine share NCCL's port, and a connection reaches any of them.
TRIES = 4


class Stuck:
    """Used by the thread that asks libraries."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._due = 0.0
        self._request_count = 0
        self._same: tuple[object, int] = (None, 0)  # what the last answers agree on, and since when

    def turn(self, vendor: str | None) -> float:
        """Ask if it is time; return the seconds to the next turn."""
        board, topology = self._board, self._board.sampler.topology
        if topology is None or not board.publisher.is_stuck or not board.is_watched:
            self._due, self._request_count, self._same = 0.0, 0, (None, 0)
            return IDLE_S
        if vendor != "tpu" and (vendor != "nvidia" or topology.process_index != 0):
            return IDLE_S
        if time.monotonic() >= self._due:
            self._request(topology, CORES if vendor == "tpu" else NCCL)
            self._request_count += 1
            self._due = time.monotonic() + (
                SECOND_REQUEST_S if self._request_count == 1 else REQUEST_INTERVAL_S
            )
        return max(0.0, self._due - time.monotonic())

    def _request(self, topology: Topology, source: str) -> None:
        state = "on"
        try:
            self._board.send(self._cores(topology) if source == CORES else self._nccl(topology))
        except (Off, ras.RasFailed) as off:
            state = f"off: {off}"
        except Exception as error:
            debuglog.warning("hardware", f"{source} cannot be asked", error=error)
            state = off_reason(error)
        self._board.sources[source] = state

    def _same_ms(self, at_ms: int, content: object) -> int:
        """Return for how long the answers have had this content."""
        if self._same[0] != content:
            self._same = content, at_ms
        return at_ms - self._same[1]

    def _cores(self, topology: Topology) -> wire.TpuCores:
        from jaxtop_agent.hardware.libraries import tpu_cores  # optional libraries

        cores, at_ms = tpu_cores.read(topology.devices), now_ms()
        # A core that waits runs a short loop, so its program counter moves.
        places = tuple(
            (each.core, each.program, each.location, each.launch_id, bool(each.pc)) for each in cores
        )
        return wire.TpuCores(at_ms, self._same_ms(at_ms, places), cores)

    def _nccl(self, topology: Topology) -> wire.Nccl:
        for _ in range(TRIES):
            read = ras_answers.read(ras.request(lambda: self._board.stopping), now_ms())
            if read.pids is not None and os.getpid() not in read.pids:
                continue
            if read.processes is not None and read.processes != topology.process_count:
                continue
            found = read.nccl
            return msgspec.structs.replace(found, same_ms=self._same_ms(found.at_ms, found.differing))
        raise Off("NCCL's RAS service there belongs to another job; give each its own NCCL_RAS_ADDR")
