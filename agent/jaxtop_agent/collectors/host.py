"""Figures of the process, and of the machine or container in which it runs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.wire import HostSample, IoTotals
from jaxtop_agent.core import budget
from jaxtop_agent.machine import basics, disks, files, holders
from jaxtop_agent.machine.busy import BusyThreads
from jaxtop_agent.machine.cgroups import CgroupLimits, Groups
from jaxtop_agent.machine.moved_bytes import Movement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jaxtop_agent.core.board import Board


# Seconds between two reads of the limits and of the CPUs that the process may use: these rarely change.
LIMITS_EVERY = 10.0


class _HostReading(NamedTuple):
    """Counters, and the limits that apply, at one time."""

    at: float
    process_s: float
    cpu: basics.Cpu
    network: basics.Network
    limits: CgroupLimits
    waits: basics.PressureWaits
    disks: disks.DiskTraffic
    own: disks.OwnTraffic


class _Rates(NamedTuple):
    """Figures from two readings; None if a reading is missing or a counter was reset."""

    before: _HostReading | None
    now: _HostReading

    def moved(self, figure: Callable[[_HostReading], float | None]) -> float | None:
        """Return the increase of a counter per second."""
        before, now = self
        if before is None or now.at <= before.at or before.limits.places != now.limits.places:
            return None
        first, second = figure(before), figure(now)
        if first is None or second is None or second < first:
            return None
        return (second - first) / (now.at - before.at)

    def rate(self, figure: Callable[[_HostReading], float | None], unit: int = 1) -> int | None:
        moved = self.moved(figure)
        return None if moved is None else round(moved * unit)

    def share(self, figure: Callable[[_HostReading], float | None]) -> int | None:
        permille = self.rate(figure, 1000)
        return None if permille is None else min(1000, permille)

    def busy(self) -> int | None:
        """Return the CPU use as a share of the container's limit if it has one, else of the machine."""
        limit = self.now.limits.cores
        if limit is not None:
            used = self.moved(lambda each: each.limits.used_s)
            return None if used is None else min(1000, round(used * 1000 / limit))
        busy, total = self.moved(lambda each: each.cpu.busy), self.moved(lambda each: each.cpu.total)
        return None if busy is None or not total else round(busy * 1000 / total)

    def held_back(self) -> int | None:
        """Return the throttled share of time, at most that of periods: the kernel's time sums all cores."""
        share = self.share(lambda each: each.limits.held_s)
        periods = self.moved(lambda each: each.limits.periods)
        held = self.moved(lambda each: each.limits.held_periods)
        if share is None or not periods or held is None:
            return share
        return min(share, round(held * 1000 / periods))


class HostFigures:
    """The host figures. Rates are computed between two readings, so the first sample has none."""

    name = "host"
    share = budget.COLLECTOR
    also_unwatched = True

    def __init__(self, own_threads: Callable[[], Collection[int]], root: str = "") -> None:
        self._root = root
        self._groups = Groups(root)
        self._disks = disks.Disks(root)
        self._busy = BusyThreads(own_threads)
        self._movement = Movement()
        self._malloc, self._children = holders.Malloc(root), holders.Children(root)
        self._last: _HostReading | None = None
        self._usable: int | None = None
        self._due = 0.0

    def collect(self, board: Board, client: Any) -> None:  # noqa: ARG002 - the machine has no client
        memory = basics.memory(self._root)
        process = basics.process(self._root)
        pages, malloc, children = holders.pages(self._root), self._malloc.read(), self._children.read()
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + LIMITS_EVERY
            online = files.text(f"{self._root}/sys/devices/system/cpu/online")
            cores = files.count(online) or os.cpu_count()
            self._groups.find_limits(cores, memory.total)
            self._usable = _usable(cores, self._root)
        limits = self._groups.read()
        parts = limits.memory_parts if limits.memory else memory.parts
        now = self._read(limits)
        since, self._last = _Rates(self._last, now), now
        board.sampler.moved = self._movement.look(now.at, now.own, now.network.received)
        if not board.is_watched:
            self._busy.forget()
        board.sampler.host = HostSample(
            process_cpu_permille=since.rate(lambda each: each.process_s, 1000),
            rss_bytes=process.rss,
            threads=process.threads,
            machine_cpu_permille=since.busy(),
            memory_used_bytes=limits.memory_used if limits.memory else memory.used,
            memory_total_bytes=limits.memory or memory.total,
            load_centi=round(os.getloadavg()[0] * 100),
            received_bytes_per_s=since.rate(lambda each: each.network.received),
            sent_bytes_per_s=since.rate(lambda each: each.network.sent),
            cores_milli=_least_milli(self._usable, limits.cores),
            is_container=limits.is_container,
            cpu_pressure_permille=since.share(lambda each: each.waits.cpu_s),
            memory_pressure_permille=since.share(lambda each: each.waits.memory_s),
            io_pressure_permille=since.share(lambda each: each.waits.io_s),
            held_back_permille=since.held_back(),
            disk_read_bytes_per_s=since.rate(lambda each: each.disks.read),
            disk_written_bytes_per_s=since.rate(lambda each: each.disks.written),
            process_read_bytes_per_s=since.rate(lambda each: each.own.read),
            process_written_bytes_per_s=since.rate(lambda each: each.own.written),
            busy_threads=self._busy.look() if board.is_watched else (),
            rss_anonymous_bytes=pages.anonymous,
            rss_file_bytes=pages.file,
            rss_shared_bytes=pages.shared,
            locked_bytes=pages.locked,
            pinned_bytes=pages.pinned,
            malloc_used_bytes=malloc.used,
            malloc_mapped_bytes=malloc.mapped,
            malloc_free_bytes=malloc.free,
            children=children.processes,
            children_rss_bytes=children.resident,
            children_anonymous_bytes=children.anonymous,
            machine_anonymous_bytes=parts.anonymous,
            machine_file_bytes=parts.file,
            machine_shared_bytes=parts.shared,
        )

    def forget(self, board: Board) -> None:
        board.sampler.host, board.sampler.moved = HostSample(), IoTotals()

    def _read(self, limits: CgroupLimits) -> _HostReading:
        return _HostReading(
            at=time.monotonic(),
            process_s=time.process_time(),
            cpu=basics.cpu(self._root),
            network=basics.network(self._root),
            limits=limits,
            waits=basics.waits(limits.places, self._root),
            disks=self._disks.read(),
            own=disks.of_process(self._root),
        )


def _usable(cores: int | None, root: str) -> int | None:
    """Return how many of the machine's CPUs the process's affinity mask permits."""
    status = files.text(f"{root}/proc/self/status") or ""
    _, _, allowed = status.partition("\nCpus_allowed_list:")
    chosen = files.count(allowed.partition("\n")[0])
    return min((each for each in (chosen, cores) if each), default=None)


def _least_milli(*cores: float | None) -> int | None:
    limits = [each for each in cores if each is not None]
    return round(min(limits) * 1000) if limits else None
