"""Who a process is, so that a pid that was given to another is never mistaken for it."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Namespace(NamedTuple):
    """Where a pid means something: one boot of one machine, one pid namespace."""

    boot: str
    pid_namespace: str


@cache
def here() -> Namespace:
    """The place of this process; empty strings where the system does not say."""
    return Namespace(_read("/proc/sys/kernel/random/boot_id"), _link("/proc/self/ns/pid"))


def about_this() -> dict[str, str]:
    """This process as a recording names its writer."""
    pid, place = os.getpid(), here()
    return {
        "hostname": socket.gethostname(),
        "pid": str(pid),
        "process_started_ticks": str(start_ticks(pid) or ""),
        "boot": place.boot,
        "pid_namespace": place.pid_namespace,
    }


def start_ticks(pid: int) -> int | None:
    """When `pid` started, in clock ticks since boot; None if there is no such process, or it is a zombie."""
    try:
        # The kernel cuts the name at 15 bytes, also within a letter.
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    # The name may hold spaces and brackets: what follows it starts after the last ')'.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def is_gone(place: Namespace, pid: int, started: int | None) -> bool:
    """True only if this machine can tell that the process ended; False elsewhere."""
    if place != here() or not place.boot or started is None:
        return False
    return start_ticks(pid) != started


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - Path.readlink would make "pid:[1]" look like a path
    except OSError:
        return ""
