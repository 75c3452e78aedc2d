"""What a thread waits for, in words, by its system call: where no function tells, the kernel does.

Nothing here can block: a descriptor is known by its link below /proc, and no file is looked at.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from jaxtop_agent.machine import files
from jaxtop_agent.native.memory import UnwindError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop_agent.native.memory import OwnMemory

SLEEP = "a time to pass (sleep)"
_DATA, _ROOM = "data from {}", "room to write to {}"
# By the numbers of x86-64. `{}` stands for what the descriptor is, which is the first argument.
_WORDS = {
    **dict.fromkeys((0, 17, 19, 45, 47, 295, 299, 327), _DATA),  # read, recv and their kin
    **dict.fromkeys((1, 18, 20, 44, 46, 296, 307, 328), _ROOM),  # write, send and their kin
    **dict.fromkeys((43, 288), "a connection to {}"),  # accept
    42: "a connection to be made",  # connect
    **dict.fromkeys((35, 230), SLEEP),  # nanosleep, clock_nanosleep
    **dict.fromkeys((34, 128, 130), "a signal"),  # pause, rt_sigtimedwait, rt_sigsuspend
    **dict.fromkeys((61, 247), "a child process"),  # wait4, waitid
    **dict.fromkeys((56, 57, 58, 435), "a child process to start"),  # clone, fork, vfork, clone3
    **dict.fromkeys((202, 449), "a lock or condition"),  # futex, futex_waitv
    **dict.fromkeys((2, 85, 257, 437), "a file to open"),  # open, creat, openat, openat2
    3: "a file to close",  # close
    **dict.fromkeys((72, 73), "a file lock"),  # fcntl, flock
    **dict.fromkeys((26, 74, 75, 162, 277, 306), "a disk"),  # msync, fsync, fdatasync, sync, syncfs
    # stat, access, rename, mkdir, unlink, readlink and their kin, and lists of folders
    **dict.fromkeys(
        (4, 5, 6, 21, 78, 82, 83, 84, 87, 89, 217, 262, 263, 264, 267, 269, 332), "a file system"
    ),
    16: "the driver of {}",  # ioctl
    **dict.fromkeys((208, 333, 426), "reads or writes to end"),  # io_getevents, io_uring_enter
}
_KINDS = (
    ("socket:", "a socket"),
    ("pipe:", "a pipe"),
    ("anon_inode:[eventfd]", "an event counter"),
    ("anon_inode:[timerfd]", "a timer"),
    ("/dev/pts/", "a terminal"),
    ("/dev/tty", "a terminal"),
    ("/dev/", "a device"),
    ("/", "a file or named pipe"),
)
_UNKNOWN = "a descriptor"
# A thread may wait for any number of descriptors: so many are looked at.
MOST_DESCRIPTORS = 16
# A `pollfd`: descriptor, wanted events, events. Those that are wanted to read have one of these bits.
_POLLED, _TO_READ = struct.Struct("<ihh"), 0x0001 | 0x0002 | 0x0040 | 0x0080
# The descriptors that `select` knows: a bit each.
_SELECTED_BYTES = 128


def words(text: str, memory: OwnMemory) -> str:
    """Return what a thread waits for, by what the kernel says about it; empty if that does not tell."""
    parts = text.split()
    if len(parts) != 9 or not parts[0].isdecimal():
        return ""
    try:
        number, arguments = int(parts[0]), [int(each, 16) for each in parts[1:7]]
    except ValueError:
        return ""
    if (several := _OF_SEVERAL.get(number)) is not None:
        try:
            return several(arguments, memory)
        except UnwindError:
            return _DATA.format(_UNKNOWN)
    found = _WORDS.get(number, "")
    return found.format(_kind(_descriptor(arguments[0]))) if "{}" in found else found


def _poll(arguments: list[int], memory: OwnMemory) -> str:
    count = arguments[1] & 0xFFFFFFFF
    if not count:
        return SLEEP
    data = memory.read(arguments[0], _POLLED.size * min(count, MOST_DESCRIPTORS))
    polled = list(_POLLED.iter_unpack(data))
    is_read = any(wanted & _TO_READ for _, wanted, _ in polled)
    return (_DATA if is_read else _ROOM).format(_kinds(file for file, _, _ in polled if file >= 0))


def _select(arguments: list[int], memory: OwnMemory) -> str:
    count, to_read, to_write = _descriptor(arguments[0]), arguments[1], arguments[2]
    read, written = (_selected(each, count, memory) for each in (to_read, to_write))
    if not read and not written:
        return SLEEP
    return _DATA.format(_kinds(read)) if read else _ROOM.format(_kinds(written))


def _selected(address: int, count: int, memory: OwnMemory) -> list[int]:
    if not address or count <= 0:
        return []
    bits = int.from_bytes(memory.read(address, min((count + 63) // 64 * 8, _SELECTED_BYTES)), "little")
    return [each for each in range(min(count, 8 * _SELECTED_BYTES)) if bits >> each & 1]


def _epoll(arguments: list[int], _memory: OwnMemory) -> str:
    lines = (files.text(f"/proc/self/fdinfo/{_descriptor(arguments[0])}") or "").splitlines()
    watched = [line.split()[1] for line in lines if line.startswith("tfd:") and len(line.split()) > 1]
    return _DATA.format(_kinds(int(each) for each in watched if each.isdecimal()))


# poll, ppoll, select, pselect6, epoll_wait, epoll_pwait, epoll_pwait2
_OF_SEVERAL: dict[int, Callable[[list[int], OwnMemory], str]] = {
    **dict.fromkeys((7, 271), _poll),
    **dict.fromkeys((23, 270), _select),
    **dict.fromkeys((232, 281, 441), _epoll),
}


def _descriptor(argument: int) -> int:
    """Return an argument as the kernel reads it: as a signed number of 32 bits."""
    return ((argument & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def _kinds(descriptors: Iterable[int]) -> str:
    found = dict.fromkeys(_kind(each) for each in list(descriptors)[:MOST_DESCRIPTORS])
    return " or ".join(found) or _UNKNOWN


def _kind(descriptor: int) -> str:
    """Return what a descriptor is; the file itself, which may be on a network, is not asked."""
    try:
        link = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - it need not be a path
    except OSError:
        return _UNKNOWN
    return next((kind for start, kind in _KINDS if link.startswith(start)), _UNKNOWN)
