"""The control groups of the process: what a container, a batch system or a service may use, and has used.

Groups are nested, and the smallest visible limit applies. A container may mount the groups from its own group
on, while the process sees its path on the machine. So we resolve paths relative to the group that is mounted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.machine import basics, files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    _Limit = Callable[[str, bool], float | None]

# The number of nested groups that are read.
MAX_DEPTH = 32
MOST_OF_MOUNTS = 256 * 1024


class CgroupLimits(NamedTuple):
    """Limits below the machine's own; None where there is no limit, or where it is unknown.

    `used_s` is the CPU time of all processes in the group that `cores` limits. `held_s` is the time for which
    the kernel kept the group from running, summed over its cores, in `held_periods` of `periods`. `places`
    has the folders of the groups that set the limits.
    """

    cores: float | None = None
    used_s: float | None = None
    held_s: float | None = None
    held_periods: int | None = None
    periods: int | None = None
    memory: int | None = None
    memory_used: int | None = None
    places: tuple[str, ...] = ()
    memory_parts: basics.MemoryParts = basics.MemoryParts()

    @property
    def is_container(self) -> bool:
        return self.cores is not None or self.memory is not None


class _Chain(NamedTuple):
    """Where a controller is mounted, and the process's groups there, the innermost first."""

    mount: str
    paths: tuple[str, ...]
    is_unified: bool

    def folders(self) -> Iterator[tuple[str, str]]:
        return ((path, self.mount + path) for path in self.paths)


NOWHERE = _Chain("", (), is_unified=False)


class _Bounds(NamedTuple):
    """The limits, and the path of the group that sets each; None where there is no limit."""

    cores: float | None = None
    of_cores: str | None = None
    of_quota: str | None = None
    memory: int | None = None
    of_memory: str | None = None


class Groups:
    """The groups of this process; limits are searched for occasionally, usage is read each time."""

    def __init__(self, root: str = "") -> None:
        self._root = root
        self._memberships: str | None = None
        self._chains: dict[str, _Chain] = {}
        self._bounds = _Bounds()

    def find_limits(self, cores: int | None, memory: int | None) -> None:
        """Find the limits below the machine's `cores` and `memory`; the process may have changed groups."""
        content = files.text(f"{self._root}/proc/self/cgroup")
        if content != self._memberships:
            self._memberships = content
            self._chains = _chains(content or "", self._root)
        quota, of_quota = _if_less(cores, *self._least("cpu", _quota))
        chosen, of_set = _if_less(cores, *self._least("cpuset", _cpus))
        least = min((each for each in (quota, chosen) if each is not None), default=None)
        self._bounds = _Bounds(
            least, of_quota if least == quota else of_set, of_quota, *self._memory_limit(memory)
        )

    def read(self) -> CgroupLimits:
        bounds = self._bounds
        periods, held_periods, held_s = self._held(bounds.of_quota)
        memory = self._chain_of("memory")
        used, parts = None, basics.MemoryParts()
        if bounds.of_memory is not None:
            used, parts = _memory_used(memory.mount + bounds.of_memory, memory.is_unified)
        return CgroupLimits(
            cores=bounds.cores,
            used_s=self._used(bounds.of_cores),
            held_s=held_s,
            held_periods=held_periods,
            periods=periods,
            memory=bounds.memory,
            memory_used=used,
            places=tuple(
                self._chain_of(controller).mount + path
                for controller, path in (("cpu", bounds.of_cores), ("memory", bounds.of_memory))
                if path is not None
            ),
            memory_parts=parts,
        )

    def _chain_of(self, controller: str) -> _Chain:
        return self._chains.get(controller) or self._chains.get("", NOWHERE)

    def _least(self, controller: str, limit: _Limit) -> tuple[float | None, str | None]:
        """Return the smallest limit, and the outermost group with it: all that it counts is inside."""
        least, where = None, None
        chain = self._chain_of(controller)
        for path, folder in chain.folders():
            found = limit(folder, chain.is_unified)
            if found is not None and (least is None or found <= least):
                least, where = found, path
        return least, where

    def _memory_limit(self, memory: int | None) -> tuple[int | None, str | None]:
        found, where = self._least("memory", _memory)
        chain = self._chain_of("memory")
        if chain.paths and not chain.is_unified:  # version 1 groups report limits above the visible groups
            stat = files.numbers(files.text(f"{chain.mount}{chain.paths[0]}/memory.stat"))
            above = stat.get("hierarchical_memory_limit")
            if above is not None and (found is None or above < found):
                found, where = above, chain.paths[-1]
        if found is None or (memory is not None and found >= memory):
            return None, None
        return int(found), where

    def _used(self, path: str | None) -> float | None:
        if path is None:
            return None
        chain = self._chain_of("cpu")
        if chain.is_unified:
            used = files.numbers(files.text(f"{chain.mount}{path}/cpu.stat")).get("usage_usec")
            return None if used is None else used / 1e6
        account = self._chain_of("cpuacct")
        used = files.number(files.text(f"{account.mount}{path}/cpuacct.usage")) if account.paths else None
        return None if used is None else used / 1e9

    def _held(self, path: str | None) -> tuple[int | None, int | None, float | None]:
        if path is None:
            return None, None, None
        chain = self._chain_of("cpu")
        stat = files.numbers(files.text(f"{chain.mount}{path}/cpu.stat"))
        name, scale = ("throttled_usec", 1e6) if chain.is_unified else ("throttled_time", 1e9)
        held = stat.get(name)
        return stat.get("nr_periods"), stat.get("nr_throttled"), None if held is None else held / scale


def memory_left(root: str = "") -> int | None:
    """Return the unused memory of the machine, or of the container if that is less; None if unknown."""
    machine = basics.memory(root)
    groups = Groups(root)
    groups.find_limits(None, machine.total)
    limits = groups.read()
    both = ((machine.total, machine.used), (limits.memory, limits.memory_used))
    left = (max(0, total - used) for total, used in both if total is not None and used is not None)
    return min(left, default=None)


def _if_less(whole: int | None, limit: float | None, where: str | None) -> tuple[float | None, str | None]:
    """Return the limit and its group if it is less than what the machine has, which must be known."""
    is_less = whole is not None and limit is not None and limit < whole
    return (limit, where) if is_less else (None, None)


def _quota(folder: str, is_unified: bool) -> float | None:
    if is_unified:
        quota, _, period = (files.text(f"{folder}/cpu.max") or "").partition(" ")
    else:
        quota = files.text(f"{folder}/cpu.cfs_quota_us") or ""
        period = files.text(f"{folder}/cpu.cfs_period_us") or ""
    allowed, period_us = files.number(quota), files.number(period)
    return allowed / period_us if allowed and period_us else None


def _cpus(folder: str, is_unified: bool) -> float | None:
    names = ("cpuset.cpus.effective",) if is_unified else ("cpuset.effective_cpus", "cpuset.cpus")
    content = next((text for name in names if (text := files.text(f"{folder}/{name}"))), None)
    return files.count(content)


def _memory(folder: str, is_unified: bool) -> float | None:
    return files.number(files.text(f"{folder}/{'memory.max' if is_unified else 'memory.limit_in_bytes'}"))


def _memory_used(folder: str, is_unified: bool) -> tuple[int | None, basics.MemoryParts]:
    """Return the memory in use, without inactive file pages, which the kernel would drop first; its parts."""
    name, dropped_name, *names = (
        ("memory.current", "inactive_file", "anon", "file", "shmem")
        if is_unified
        else ("memory.usage_in_bytes", "total_inactive_file", "total_rss", "total_cache", "total_shmem")
    )
    used = files.number(files.text(f"{folder}/{name}"))
    stat = files.numbers(files.text(f"{folder}/memory.stat"))
    dropped = stat.get(dropped_name)
    parts = basics.parts(*map(stat.get, names))
    return None if used is None or dropped is None else max(0, used - dropped), parts


def _chains(content: str, root: str) -> dict[str, _Chain]:
    """Return the chain of each controller; the key of the unified groups is empty."""
    mounts = list(_mounts(files.text(f"{root}/proc/self/mountinfo", MOST_OF_MOUNTS) or ""))
    found: dict[str, _Chain] = {}
    for line in content.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if not path.startswith("/"):
            continue
        for name in names.split(","):
            is_unified = number == "0" and not name
            fitting = [
                (top, at) for controllers, top, at in mounts if (None if is_unified else name) in controllers
            ]
            # Prefer a mount that contains the process's own group; otherwise use the group that is mounted.
            fitting.sort(key=lambda mount: _relative_path(path, mount[0]) is None)
            if fitting:
                top, at = fitting[0]
                found[name] = _Chain(root + at, _upwards(_relative_path(path, top) or ""), is_unified)
    return found


def _mounts(content: str) -> Iterator[tuple[set[str | None], str, str]]:
    """Yield the controllers of each mount (None: unified groups), the mounted group, the mount point."""
    for line in content.splitlines():
        before, _, after = line.partition(" - ")
        place, kind = before.split(" "), after.split(" ")
        if len(place) > 4 and len(kind) > 2 and kind[0] in {"cgroup", "cgroup2"}:
            controllers: set[str | None] = {None} if kind[0] == "cgroup2" else set(kind[2].split(","))
            yield controllers, _plain(place[3]), _plain(place[4])


def _plain(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _relative_path(path: str, top: str) -> str | None:
    """Return the path relative to this group; None if it is not inside."""
    top = top.rstrip("/")
    if ".." in path.split("/") or not (path == top or path.startswith(f"{top}/")):
        return None
    return path[len(top) :].rstrip("/")


def _upwards(path: str) -> tuple[str, ...]:
    paths = [path]
    while paths[-1] and len(paths) < MAX_DEPTH:
        paths.append(paths[-1].rpartition("/")[0])
    return tuple(paths)
