"""Check that this process has resources left: without a thread or memory, ZeroMQ aborts the process."""

from __future__ import annotations

import _thread
import os
import resource
import shutil
import threading
import time
from pathlib import Path

# A thread's stack, and what the allocator reserves for it; most of it is never touched.
ADDRESS_SPACE_A_THREAD = 80 << 20
ENDS_WITHIN = 1.0
# Recordings leave this much of a file system free: the run needs it.
LEAST_FREE_DISK = 64 << 20


class NoRoom(OSError):
    """This process lacks a resource; the text says which."""


def require_descriptors(count: int) -> None:
    """Raise unless this many files can be opened."""
    taken: list[int] = []
    try:
        for _ in range(count):
            taken.append(os.open(os.devnull, os.O_RDONLY))  # noqa: PERF401 - finally closes those opened
    except OSError as error:
        raise NoRoom(f"{len(taken)} file descriptors are left, {count} are needed") from error
    finally:
        for fd in taken:
            os.close(fd)


def require_threads(count: int) -> None:
    """Raise unless this many more threads, with their stacks, can run."""
    require_address_space(count)
    over = _thread.allocate_lock()
    over.acquire()
    tasks: list[int] = []

    def wait() -> None:
        tasks.append(threading.get_native_id())
        with over:
            pass

    started = 0
    try:
        for _ in range(count):
            _thread.start_new_thread(wait, ())
            started += 1
    except (RuntimeError, MemoryError) as error:
        raise NoRoom(f"{started} threads are left, {count} are needed") from error
    finally:
        over.release()
        _wait_for_end(tasks, started)


def _wait_for_end(tasks: list[int], count: int) -> None:
    """Wait until the threads are gone: the kernel counts a thread for a while after its last line."""
    end = time.monotonic() + ENDS_WITHIN
    while time.monotonic() < end:
        if len(tasks) == count and not any(Path(f"/proc/self/task/{task}").exists() for task in tasks):
            return
        time.sleep(0.0005)


def require_address_space(threads: int) -> None:
    """Raise unless this many threads fit into a limit of address space (`ulimit -v`).

    Nothing is allocated for this: the script would be short of it meanwhile, and JAX crashes then.
    """
    limit, size = resource.getrlimit(resource.RLIMIT_AS)[0], threads * ADDRESS_SPACE_A_THREAD
    if limit == resource.RLIM_INFINITY:
        return
    try:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return
    if limit - taken < size:
        raise NoRoom(f"less than {size >> 20} MB of address space are left (ulimit -v)")


def require_disk(folder: Path, least: int = LEAST_FREE_DISK) -> None:
    """Raise unless this many bytes are free on the disk of a folder."""
    usage = shutil.disk_usage(folder)
    # A total of 0 means that the file system does not count its space.
    if usage.total and usage.free < least:
        free = f"{usage.free / (1 << 20):.1f} MiB free"
        raise NoRoom(f"the disk has {free}; {least >> 20} MiB stay for the run")
