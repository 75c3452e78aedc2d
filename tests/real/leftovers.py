"""Ends the processes that a failed test left running: they would take the time of those after it."""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import suppress

import psutil

from jaxtop.base.processes import start_ticks
from tests.real import forkserver

# Processes whose parents have ended become children of the one that runs the tests.
ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER


def adopt_orphans() -> None:
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1)


def now() -> int:
    """Return the time by the clock of process starts: ticks since the machine's start."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def end_since(began: int) -> list[str]:
    """End the descendants of this process that began at this time or later; return their command lines."""
    servers = forkserver.pids()
    ended = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            started = start_ticks(each.pid)
            if each.pid in servers or started is None or started < began:
                continue
            ended.append(" ".join(each.cmdline()) or each.name())
            each.kill()
    return ended
