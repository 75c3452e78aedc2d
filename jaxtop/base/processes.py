"""The identity of a process: a pid that the system reused is never mistaken for the earlier process."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

# Variables in which a scheduler names its job: Slurm, PBS, LSF.
JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")


class Namespace(NamedTuple):
    """Where a pid is valid: one boot of one machine, one pid namespace."""

    boot: str
    pid_namespace: str


@cache
def here() -> Namespace:
    """Return the namespace of this process; empty strings where the system does not provide it."""
    boot = pid_namespace = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    with suppress(OSError):
        pid_namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - a Path would make "pid:[1]" look like one
    return Namespace(boot, pid_namespace)


def identity_of_this_process() -> dict[str, str]:
    """Return the identity of this process, with which a recording names its writer."""
    pid, place = os.getpid(), here()
    return {
        "hostname": socket.gethostname(),
        "pid": str(pid),
        "process_started_ticks": str(start_ticks(pid) or ""),
        "boot": place.boot,
        "pid_namespace": place.pid_namespace,
    }


def job() -> str | None:
    """Return the scheduler's job in which this process runs; None outside of one."""
    return next((f"{name} {value[:100]}" for name in JOBS if (value := os.environ.get(name))), None)


def start_ticks(pid: int) -> int | None:
    """Return when `pid` started, in clock ticks since boot; None for a zombie or a missing process."""
    try:
        # The kernel cuts the name at 15 bytes, even inside a character.
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    # The name may contain spaces and brackets, so we split after the last ')'.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def parent_of(pid: int) -> int | None:
    """Return the pid of the parent of `pid`; None for a missing process and for the first one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1]) or None


def ancestors_of(pid: int) -> set[int]:
    """Return the processes that have started `pid`, one after the other, as far as they still live."""
    found: set[int] = set()
    above = parent_of(pid)
    while above is not None and above not in found:
        found.add(above)
        above = parent_of(above)
    return found


def numbers_in_proc() -> list[int]:
    """Return the pids of all processes that this one sees; none where the system has no `/proc`."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - only the names are wanted
    except OSError:
        return []


def of_multiprocessing(function: str) -> Any:
    """Return what a function of multiprocessing says, such as `parent_process`; None if it is not in use."""
    module = sys.modules.get("multiprocessing.process")
    return None if module is None else getattr(module, function)()


def numbers_in(folder: str) -> list[int]:
    """Return the numbers of the descriptors or threads that a folder in `/proc` lists."""
    try:
        return [int(name) for name in os.listdir(folder)]  # noqa: PTH208 - only the names are wanted
    except OSError:
        return []


def is_gone(place: Namespace, pid: int, started: int | None) -> bool | None:
    """Return whether the process has ended; None if this machine cannot tell."""
    if place != here() or not place.boot or started is None:
        return None
    return start_ticks(pid) != started


def shares_network(pid: int) -> bool:
    """Return whether a process of this machine has the same network, and so the same loopback."""
    try:
        return Path(f"/proc/{pid}/ns/net").samefile("/proc/self/ns/net")
    except OSError:
        return False
