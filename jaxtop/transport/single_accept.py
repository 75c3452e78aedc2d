"""Lets ZeroMQ accept one connection at a time.

ZeroMQ's I/O thread accepts whatever arrives, and has no option for less. It waits for a listening socket with
epoll, in level-triggered mode. In one-shot mode it accepts one connection, and then none until the socket is
armed again.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import select
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from jaxtop.base.processes import numbers_in

# These calls do not wait, so they keep the GIL: a busy script would return it only after milliseconds.
_LIBC = ctypes.PyDLL(None)
_MODIFY = 3  # EPOLL_CTL_MOD
_ENTRY = re.compile(r"^tfd:\s*(\d+) events:\s*[\da-f]+ data:\s*([\da-f]+)", re.MULTILINE)


class _Event(ctypes.Structure):
    _pack_ = 1 if platform.machine() == "x86_64" else 0
    _fields_ = (("events", ctypes.c_uint32), ("data", ctypes.c_uint64))


class Entry(NamedTuple):
    """A listening socket in the epoll set of ZeroMQ; `data` is ZeroMQ's own and must stay the same."""

    epoll: int
    fd: int
    data: int

    def accept_one(self) -> bool:
        """Let ZeroMQ accept one more connection; return False if the socket is no longer in the set."""
        return self._set(select.EPOLLIN | select.EPOLLONESHOT)

    def accept_all(self) -> bool:
        """Let ZeroMQ accept whatever arrives, as it does by itself."""
        return self._set(select.EPOLLIN)

    def _set(self, events: int) -> bool:
        event = _Event(events, self.data)
        return bool(_LIBC.epoll_ctl(self.epoll, _MODIFY, self.fd, ctypes.byref(event)) == 0)


def entry(fd: int) -> Entry | None:
    """Return the entry of a listening socket; None if ZeroMQ has not added it yet, or on other systems."""
    for each in numbers_in("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{each}") == "anon_inode:[eventpoll]":  # noqa: PTH115 - only compared
                for listed, data in _ENTRY.findall(Path(f"/proc/self/fdinfo/{each}").read_text()):
                    if int(listed) == fd:
                        return Entry(each, fd, int(data, 16))
    return None


def drop_waiting(listening: int, most: int) -> None:
    """End up to `most` connections that wait in the queue of a listening socket."""
    for _ in range(most):
        fd = _LIBC.accept4(listening, None, None, os.O_CLOEXEC)
        if fd < 0:
            return
        _LIBC.close(fd)
