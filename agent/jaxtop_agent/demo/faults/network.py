"""Faults of the network, made by the kernel on the sockets of this process: they need no rights."""

from __future__ import annotations

import ctypes
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtop.store import runfiles
from jaxtop_agent.demo.faults.fault import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

# Options of sockets on Linux that Python does not name.
SO_ATTACH_FILTER, SO_MAX_PACING_RATE = 26, 47
# The classic BPF program `ret 0`: it accepts no byte of any packet, so every segment is lost.
DROP_ALL = b"\x06\0\0\0\0\0\0\0"


class SlowNetwork(Fault):
    name = "slow_network"
    text = "the network carries only 20 MB a second from the last host to the others"
    rules = ("communication_bound",)
    is_of_one_process = False
    costs_time = True
    BYTES_PER_S = 20_000_000

    def begin(self, state: Any) -> Any:
        if self.is_here:
            for each in _connections():
                each.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, self.BYTES_PER_S)
        return state


class CutLink(Fault):
    name = "cut_link"
    text = "no packet reaches the agent of the last host any more; the training goes on"
    rules = ("host_lost",)

    def begin(self, state: Any) -> Any:
        if self.is_here:
            code = ctypes.create_string_buffer(DROP_ALL, len(DROP_ALL))
            program = _SocketFilter(1, ctypes.addressof(code))
            for each in _connections():
                if each.getsockname()[1] in _ports_of_agent():
                    each.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(program))
        return state


class _SocketFilter(ctypes.Structure):
    """`struct sock_fprog`: a number of instructions, and their address."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def _connections() -> Iterator[socket.socket]:
    """Yield the TCP sockets of this process, each by a descriptor of its own that is closed afterwards."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - the numbers alone
        with suppress(OSError):  # closed meanwhile, or no socket
            if Path(f"/proc/self/fd/{name}").readlink().name.startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as each:
                    if each.family in (socket.AF_INET, socket.AF_INET6) and each.type == socket.SOCK_STREAM:
                        yield each


def _ports_of_agent() -> set[int]:
    own = (each.hello for each in runfiles.find() if each.hello.pid == os.getpid())
    ends = (end for hello in own for end in (hello.telemetry, hello.requests))
    return {int(end.rpartition(":")[2]) for end in ends}


FAULTS = (SlowNetwork, CutLink)
