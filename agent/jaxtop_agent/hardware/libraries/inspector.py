"""How long collectives took on the GPU, from the file that NCCL Inspector writes in this process.

Inspector is a plugin of NCCL that the owner of the run has to load. Its file has a line of JSON per
collective and grows without bound, so only its end is read.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from jaxtop.base import debuglog
from jaxtop.base.clock import now_ms
from jaxtop.wire import NcclTime, NcclTimes
from jaxtop_agent.core.board import off_reason
from jaxtop_agent.core.waiting import IDLE_S
from jaxtop_agent.hardware.reader import Off

if TYPE_CHECKING:
    from jaxtop_agent.core.board import Board

SOURCE = "nccl inspector"
# The seconds between two readings of the dump files.
READ_INTERVAL_S = 5.0
# The most bytes of one reading, and the most kinds of collectives in a message.
MOST_BYTES, MOST_TIMES = 256 * 1024, 64
# A line may list up to a hundred channels of a collective.
LONGEST_LINE = 64 * 1024
# JAX's names of the operations, and whether NCCL's size is what one rank contributes.
_KINDS = {
    "AllReduce": ("all-reduce", False),
    "AllGather": ("all-gather", True),
    "ReduceScatter": ("reduce-scatter", True),
    "Broadcast": ("collective-broadcast", False),
    "All2All": ("all-to-all", False),
}
ON_GPU = "kernel_gpu"
# An hour in microseconds: no collective takes longer.
LONGEST_US = 3_600_000_000
INTERVAL = "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"


class _Header(Struct):
    n_ranks: int


class _Timing(Struct):
    coll: str
    coll_msg_size_bytes: int
    coll_exec_time_us: int
    coll_timing_source: str = ON_GPU  # the first versions time nothing else


class _DumpLine(Struct):
    header: _Header
    coll_perf: _Timing | None = None  # other lines are about single messages between two ranks


_decoder = msgspec.json.Decoder(_DumpLine)


class _Key(NamedTuple):
    kind: str
    ranks: int
    bytes: int


def path() -> str | None:
    """Return where Inspector writes in this process; None if it is not loaded, or writes for Prometheus."""
    get = os.environ.get
    is_loaded = "inspector" in get("NCCL_PROFILER_PLUGIN", "") and get("NCCL_INSPECTOR_ENABLE", "0") != "0"
    if not is_loaded or get("NCCL_INSPECTOR_PROM_DUMP", "0") != "0":
        return None
    job = get("SLURM_JOBID", "")
    folder = get("NCCL_INSPECTOR_DUMP_DIR") or f"nccl-inspector-{job if job.isdecimal() else 'unknown-jobid'}"
    return f"{folder}/{socket.gethostname()}-pid{os.getpid()}.log"


class NcclTimesSender:
    """Sends the times to viewers; used by the thread that calls the drivers."""

    def __init__(self, board: Board) -> None:
        self._board = board
        file = path()
        self._inspector = None if file is None else Inspector(file)
        self._due = 0.0

    def turn(self) -> float:
        """Read if it is time; return the seconds to the next turn."""
        if self._inspector is None:
            return IDLE_S
        if not self._board.is_watched:
            self._inspector.rest()
            return IDLE_S
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + READ_INTERVAL_S
            self._board.sources[SOURCE] = self._read(self._inspector)
        return max(0.0, self._due - time.monotonic())

    def _read(self, inspector: Inspector) -> str:
        """Read and send; return the state of the source."""
        try:
            times = inspector.read(now_ms())
        except Off as off:
            return f"off: {off}"
        except Exception as error:
            debuglog.warning("hardware", "the file of NCCL Inspector cannot be read", error=error)
            return off_reason(error)
        if times is not None:
            self._board.send(times)
        return "on"


class Inspector:
    """Follows the file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._offset: int | None = None
        self._began_ms: int | None = None

    def rest(self) -> None:
        """Forget the place in the file: what is written while nobody watches is not read."""
        self._offset = self._began_ms = None

    def read(self, now_ms: int) -> NcclTimes | None:
        """Return the times of what was written since the last reading; None at first, and if nothing was."""
        began_ms, self._began_ms = self._began_ms, now_ms
        is_first = self._offset is None
        lines, skipped = self._lines()
        if is_first or began_ms is None:
            return None
        times: dict[_Key, list[int]] = defaultdict(list)
        for line in lines:
            found = _read(line)
            if found is not None:
                times[found[0]].append(found[1])
        if not times:
            return None
        longest = sorted(times.items(), key=lambda each: -sum(each[1]))[:MOST_TIMES]
        return NcclTimes(
            now_ms, now_ms - began_ms, skipped, tuple(_time(key, measured) for key, measured in longest)
        )

    def _lines(self) -> tuple[list[bytes], int]:
        """Return the whole lines since the last reading, at most the last of them, and the bytes left out."""
        try:
            file = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            raise Off(f"NCCL Inspector has not written yet; {INTERVAL} sets how often it writes") from None
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise Off(f"{self._file} is no file")
            if self._offset is None or self._offset > found.st_size:
                self._offset = found.st_size
            skipped = max(0, found.st_size - self._offset - MOST_BYTES)
            raw = os.pread(file, MOST_BYTES, self._offset + skipped)
        finally:
            os.close(file)
        end = raw.rfind(b"\n") + 1
        if not end and len(raw) > LONGEST_LINE:
            end = len(raw)  # no line is that long: go on behind it
        self._offset += skipped + end
        lines = raw[:end].split(b"\n")
        return lines[1:] if skipped else lines, skipped


def _read(line: bytes) -> tuple[_Key, int] | None:
    """Return what was timed and how long it took; None for other lines."""
    try:
        found = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # the end of a line that was skipped, or a line of another version
    timed = found.coll_perf
    if timed is None or timed.coll not in _KINDS or timed.coll_timing_source != ON_GPU:
        return None
    if not (0 < found.header.n_ranks <= 1 << 20 and 0 <= timed.coll_msg_size_bytes <= 1 << 40):
        return None
    kind, is_share = _KINDS[timed.coll]
    size = timed.coll_msg_size_bytes * (found.header.n_ranks if is_share else 1)
    is_sound = 0 <= timed.coll_exec_time_us <= LONGEST_US
    return (_Key(kind, found.header.n_ranks, size), timed.coll_exec_time_us) if is_sound else None


def _time(key: _Key, times: list[int]) -> NcclTime:
    times.sort()
    return NcclTime(*key, len(times), times[(len(times) - 1) // 2], times[-1 - len(times) // 100])
