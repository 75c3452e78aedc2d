"""What the process uses: CPU time and bytes of its threads, its connections and its children.

Two readings tell whether it moves, even where no launch and no Python shows it: a file is read, a peer sends,
a child computes. The agent's own threads and connections are left out, and those of JAX's coordination
service, whose heartbeats never end.
"""

from __future__ import annotations

import ctypes
import glob
import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.processes import numbers_in
from jaxtop_agent.core.threads import cpu_clock
from jaxtop_agent.machine import files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

# What moves more than this moves. Shares of one core; bytes per second of one thread, connection or child.
# A stuck process wakes up now and then, and helpers of a script, such as those that log, never rest.
LEAST_CPU, LEAST_CHILD_CPU = 0.03, 0.05
LEAST_BYTES, LEAST_CHILD_BYTES = 1024, 16 * 1024
# Of all adapters of the machine; counters of InfiniBand count words of four bytes.
LEAST_FABRIC_BYTES, WORD = 1 << 20, 4
# A thread that is ready to run, but waits for a core for this share of the time, would move.
LEAST_DELAY = 0.5
MOST_CHILDREN, MOST_DESCRIPTORS = 4096, 65_536
MOST_OF_STAT = 4096

_TCP_INFO, _TCP = 11, 6
# Where the kernel's `tcp_info` has the bytes that were acknowledged and received (Linux 4.2).
_BYTES_AT, _FAMILIES = 120, (2, 10)
_TICKS = os.sysconf("SC_CLK_TCK")
_FABRIC = "/sys/class/infiniband/*/ports/*/counters/port_{}_data"


class Uncounted(Exception):
    """This system does not say what the process uses."""


class Use(NamedTuple):
    """Seconds of CPU, seconds in which it was ready but waited for a core, and bytes."""

    cpu: float = 0.0
    delayed: float = 0.0
    bytes: int = 0


class Usage(NamedTuple):
    """A reading, by thread, connection and child."""

    at: float
    threads: Mapping[int, Use]
    connections: Mapping[tuple[int, int], int]
    children: Mapping[tuple[int, int], Use]
    reaped: float = 0.0  # seconds of CPU of children that have ended
    fabric: int = 0


def moved(before: Usage, now: Usage, counted: Callable[[int], bool] = bool) -> str:
    """Return what moved between two readings, in words; empty if nothing did.

    The CPU time of a thread counts if `counted` says so of its id: the default leaves none out.
    """
    seconds = max(now.at - before.at, 1e-9)
    cpu = delayed = 0.0
    for task, use in now.threads.items():
        earlier = before.threads.get(task, Use())
        if use.bytes - earlier.bytes >= LEAST_BYTES * seconds:
            return "reads or writes"
        if counted(task):
            cpu += max(0.0, use.cpu - earlier.cpu)
            delayed = max(delayed, use.delayed - earlier.delayed)
    for connection, count in now.connections.items():
        if count - before.connections.get(connection, 0) >= LEAST_BYTES * seconds:
            return "sends or receives"
    if now.fabric - before.fabric >= LEAST_FABRIC_BYTES * seconds:
        return "sends or receives over InfiniBand"
    if cpu >= LEAST_CPU * seconds:
        return "computes"
    if delayed >= LEAST_DELAY * seconds:
        return "waits for a core"
    return _moved_of_children(before, now, seconds)


def _moved_of_children(before: Usage, now: Usage, seconds: float) -> str:
    if now.children.keys() != before.children.keys():
        return "starts or ends other processes"
    for child, use in now.children.items():
        earlier = before.children[child]
        if use.cpu - earlier.cpu >= LEAST_CHILD_CPU * seconds:
            return "a process that it started computes"
        if use.bytes - earlier.bytes >= LEAST_CHILD_BYTES * seconds:
            return "a process that it started reads or writes"
    return "starts other processes" if now.reaped - before.reaped >= LEAST_CHILD_CPU * seconds else ""


def read(at: float, own: Collection[int], ports: frozenset[int]) -> Usage:
    """Read it; leave out the agent's own threads, and connections to or from one of these ports.

    Raise `Uncounted` where the system does not say.
    """
    return Usage(at, _threads(own), _connections(ports), *_children(), _fabric())


def _threads(own: Collection[int]) -> dict[int, Use]:
    if files.text("/proc/self/io") is None:
        raise Uncounted("the kernel does not count what threads read and write")
    found = {}
    for task in numbers_in("/proc/self/task"):
        if task in own:
            continue
        with suppress(OSError):  # it has just ended
            cpu = cpu_clock(task)
            words = (files.text(f"/proc/self/task/{task}/schedstat") or "").split()
            delayed = (files.number(words[1]) or 0) / 1e9 if len(words) > 1 else 0.0
            found[task] = Use(cpu, delayed, _bytes(f"/proc/self/task/{task}/io"))
    return found


def _bytes(path: str) -> int:
    # `rchar` has what caches and network file systems served, `read_bytes` what mapped files read.
    counts = files.numbers(files.text(path), ": ")
    pairs = (("rchar", "read_bytes"), ("wchar", "write_bytes"))
    return sum(max(counts.get(each, 0) for each in pair) for pair in pairs)


def _connections(ports: frozenset[int]) -> dict[tuple[int, int], int]:
    """Return the bytes of each TCP connection of the process, both ways."""
    found = {}
    info, name = ctypes.create_string_buffer(256), ctypes.create_string_buffer(128)
    size = ctypes.c_uint32()
    for number in numbers_in("/proc/self/fd")[:MOST_DESCRIPTORS]:
        size.value = len(info)
        # By number, without a copy of the descriptor: it neither keeps the connection open nor changes it.
        if _libc.getsockopt(number, _TCP, _TCP_INFO, info, ctypes.byref(size)):
            continue
        if size.value < _BYTES_AT + 16:
            raise Uncounted("the kernel does not count the bytes of connections")
        if ports.isdisjoint(_ports(number, name)):
            with suppress(OSError):
                found[number, os.fstat(number).st_ino] = sum(struct.unpack_from("=QQ", info, _BYTES_AT))
    return found


def _ports(number: int, name: ctypes.Array[ctypes.c_char]) -> list[int]:
    """Return the ports of both ends of a connection."""
    found: list[int] = []
    size = ctypes.c_uint32()
    for call in (_libc.getsockname, _libc.getpeername):
        size.value = len(name)
        if not call(number, name, ctypes.byref(size)):
            (family,) = struct.unpack_from("=H", name)
            if family in _FAMILIES:
                found += struct.unpack_from("!H", name, 2)
    return found


_libc = ctypes.CDLL(None)


def _children() -> tuple[dict[tuple[int, int], Use], float]:
    """Return what each descendant uses, and the CPU time of children that have ended."""
    found: dict[tuple[int, int], Use] = {}
    waiting, seen = _children_of("self"), set[str]()
    while waiting and len(seen) < MOST_CHILDREN:
        pid = waiting.pop()
        if pid in seen:
            continue
        seen.add(pid)
        if words := _stat(pid):
            key = int(pid), int(words[19])
            found[key] = Use(sum(map(int, words[11:15])) / _TICKS, 0.0, _bytes(f"/proc/{pid}/io"))
            waiting += _children_of(pid)
    words = _stat("self")
    return found, sum(map(int, words[13:15])) / _TICKS if words else 0.0


def _children_of(pid: str) -> list[str]:
    found = []
    for task in numbers_in(f"/proc/{pid}/task"):
        text = files.text(f"/proc/{pid}/task/{task}/children")
        if text is None and pid == "self" and task == os.getpid():
            raise Uncounted("the kernel does not list the processes that it started")
        found += (text or "").split()
    return found


def _stat(pid: str) -> list[str]:
    """Return the fields of a process after its name, which may contain any character."""
    words = (files.text(f"/proc/{pid}/stat", MOST_OF_STAT) or "").rpartition(")")[2].split()
    return words if len(words) > 20 else []


def _fabric() -> int:
    paths = [path for way in ("rcv", "xmit") for path in glob.glob(_FABRIC.format(way))]  # noqa: PTH207 - strings
    return WORD * sum(files.number((files.text(path) or "").strip()) or 0 for path in paths)
