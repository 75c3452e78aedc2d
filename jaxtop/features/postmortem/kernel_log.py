"""What the kernel of this machine has logged about a process that died."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop.base import processes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtop.model import Host

_LOG = "/dev/kmsg"
# Of a record: its priority, number and microseconds since boot; then flags and the text.
_RECORD = re.compile(r"\d+,\d+,(\d+),[^;]*;(.*)")
_LONGEST = 8192
# A record is about a death if it is so near to it: the last report may be some seconds old.
NEAR_S = 30.0
_KILLED = "killed by the kernel with SIGKILL, as memory ran out"
_SAYS = (
    (r"Memory cgroup out of memory: Killed process {pid}\b", f"{_KILLED} in its control group"),
    (r"Out of memory: Killed process {pid}\b", f"{_KILLED} on the machine"),
    (r"\[{pid}\]: segfault at", "SIGSEGV: it used memory that is not its own"),
    (r"\[{pid}\] general protection fault", "SIGSEGV: a general protection fault"),
    (r"\[{pid}\] trap invalid opcode", "SIGILL: an instruction that this processor lacks"),
)


def about(host: Host, died_at: float) -> str:
    """Return what the log says about a death; empty if the log is unreadable or says nothing."""
    hello, here = host.hello, processes.here()
    if hello is None or not here.boot or (hello.boot, hello.pid_namespace) != (here.boot, here.pid_namespace):
        return ""
    booted = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    return cause(_records(), hello.pid, died_at - booted)


def cause(records: Iterable[str], pid: int, died_s: float) -> str:
    """Return what records say about the death of a process, this many seconds after the boot."""
    for record in records:
        if (found := _RECORD.match(record)) is None or abs(int(found[1]) / 1e6 - died_s) > NEAR_S:
            continue
        for pattern, words in _SAYS:
            if re.search(pattern.format(pid=pid), found[2]):
                return f"{words} (kernel log)"
    return ""


def _records() -> Iterator[str]:
    """Yield the records of the log; none where it is not readable, as in most containers."""
    with suppress(OSError):
        log = os.open(_LOG, os.O_RDONLY | os.O_NONBLOCK)
        try:
            while True:
                with suppress(BrokenPipeError):  # records were overwritten: the next ones follow
                    yield os.read(log, _LONGEST).decode("utf-8", "replace")
        finally:
            os.close(log)
