"""The process and the machine it runs on."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from jaxtop.wire import HostSample

if TYPE_CHECKING:
    from jaxtop_agent.board import Board


class _Reading(NamedTuple):
    at: float
    process_s: float
    busy_s: float
    total_s: float
    received: int
    sent: int


class HostFigures:
    """Rates are taken between two readings, so the first has none."""

    name = "host"
    also_unwatched = True

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._last: _Reading | None = None

    def collect(self, board: Board, client: Any) -> None:  # noqa: ARG002 - the machine has no client
        memory = psutil.virtual_memory()
        with self._process.oneshot():
            own_times = self._process.cpu_times()
            rss = self._process.memory_info().rss
            threads = self._process.num_threads()
        now = self._read(own_times.user + own_times.system)
        before, self._last = self._last, now
        board.host = HostSample(
            process_cpu_permille=_rate(before, now, "process_s", 1000),
            rss_bytes=rss,
            threads=threads,
            machine_cpu_permille=_share(before, now),
            memory_used_bytes=memory.total - memory.available,
            memory_total_bytes=memory.total,
            load_centi=round(os.getloadavg()[0] * 100),
            received_bytes_per_s=_rate(before, now, "received", 1),
            sent_bytes_per_s=_rate(before, now, "sent", 1),
        )

    def forget(self, board: Board) -> None:
        board.host = HostSample()

    def _read(self, process_s: float) -> _Reading:
        times = psutil.cpu_times()
        total = sum(times[:8])  # guest time is counted in user time already
        network = psutil.net_io_counters()
        return _Reading(
            at=time.monotonic(),
            process_s=process_s,
            busy_s=total - times.idle - times.iowait,
            total_s=total,
            received=network.bytes_recv if network else 0,
            sent=network.bytes_sent if network else 0,
        )


def _rate(before: _Reading | None, now: _Reading, figure: str, unit: int) -> int | None:
    if before is None or now.at <= before.at:
        return None
    moved: float = getattr(now, figure) - getattr(before, figure)
    return max(0, round(moved * unit / (now.at - before.at)))


def _share(before: _Reading | None, now: _Reading) -> int | None:
    if before is None or now.total_s <= before.total_s:
        return None
    return max(0, round((now.busy_s - before.busy_s) * 1000 / (now.total_s - before.total_s)))
