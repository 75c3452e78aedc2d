"""Who holds the memory of the process: kinds of its pages, malloc, child processes."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop_agent.core.threads import fact, listed
from jaxtop_agent.machine import files
from jaxtop_agent.machine.basics import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KINDS = re.compile(r"^(VmLck|VmPin|RssAnon|RssFile|RssShmem):\s+(\d+) kB$", re.MULTILINE)
# The share of a core that malloc's state may take, and that child processes may take.
MAX_CORE_SHARE = 0.0001
# Malloc's locks are held while it counts its free blocks, up to 0.2 µs each: 80 µs in a process of JAX, 20 ms
# with 100,000 blocks. After two readings that took longer than this, in seconds of CPU, the next one comes
# after a rest.
MAX_MALLOC_CPU_S = 0.003
MALLOC_REST_S = 600.0
# The seconds between two looks at child processes, and how many processes or threads are looked at.
CHILDREN_EVERY, MOST_CHILDREN = 10.0, 256


class OwnPages(NamedTuple):
    """Resident bytes of the process by kind, and how many are locked or pinned; None where unknown."""

    anonymous: int | None = None
    file: int | None = None
    shared: int | None = None
    locked: int | None = None
    pinned: int | None = None


class MallocBytes(NamedTuple):
    """Bytes of glibc's malloc: in use in its arenas, in blocks that are mapped one by one, free but held."""

    used: int | None = None
    mapped: int | None = None
    free: int | None = None


class ChildBytes(NamedTuple):
    """How many descendants the process has, their resident bytes, and the anonymous ones of these."""

    processes: int | None = None
    resident: int | None = None
    anonymous: int | None = None


def pages(root: str = "") -> OwnPages:
    found = _KINDS.findall(files.text(f"{root}/proc/self/status") or "")
    kinds = {name: int(value) * 1024 for name, value in found}
    return OwnPages(*map(kinds.get, ("RssAnon", "RssFile", "RssShmem", "VmLck", "VmPin")))


class Malloc:
    """The state of malloc, where it is glibc's; unknown while asking would take longer than microseconds."""

    def __init__(self, root: str = "") -> None:
        self._call: Callable[[], MallocBytes] | None = None
        self._is_found = bool(root)  # a fake machine has none
        self._due = 0.0
        self._was_long = False
        self._last = MallocBytes()

    def read(self) -> MallocBytes:
        if not self._is_found:
            self._is_found, self._call = True, _mallinfo()
        if self._call is not None and time.monotonic() >= self._due:
            before = time.thread_time()
            self._last = self._call()
            took = time.thread_time() - before
            was_long, self._was_long = self._was_long, took > MAX_MALLOC_CPU_S
            if was_long and self._was_long:
                self._last = MallocBytes()
                self._due = time.monotonic() + MALLOC_REST_S
            else:
                self._due = time.monotonic() + took / MAX_CORE_SHARE
        return self._last


def _mallinfo() -> Callable[[], MallocBytes] | None:
    """Return the function that asks glibc, unless malloc is that of another library."""
    with suppress(Exception):  # no ctypes, another libc, glibc before 2.33
        import ctypes

        names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
        info = type(
            "Info", (ctypes.Structure,), {"_fields_": [(each, ctypes.c_size_t) for each in names.split()]}
        )
        place = type(
            "Place",
            (ctypes.Structure,),
            {"_fields_": [(each, ctypes.c_void_p) for each in ("file", "base", "name", "address")]},
        )
        library = ctypes.CDLL(None)

        def base_of(name: str) -> Any:
            found = place()
            library.dladdr(ctypes.cast(getattr(library, name), ctypes.c_void_p), ctypes.byref(found))
            return found.base

        call = library.mallinfo2
        call.restype = info
        if not base_of("malloc") or base_of("malloc") != base_of("mallinfo2"):  # such as jemalloc
            return None

        def read() -> MallocBytes:
            found = call()
            return MallocBytes(found.uordblks, found.hblkhd, found.fordblks)

        return read
    return None


class Children:
    """The processes that this one started, and those that they started."""

    def __init__(self, root: str = "") -> None:
        self._proc = f"{root}/proc"
        self._due = 0.0
        self._last = ChildBytes()

    def read(self) -> ChildBytes:
        if time.monotonic() >= self._due:
            before = time.thread_time()
            self._last = self._measure()
            took = time.thread_time() - before
            self._due = time.monotonic() + max(CHILDREN_EVERY, took / MAX_CORE_SHARE)
        return self._last

    def _measure(self) -> ChildBytes:
        found = self._descendants()
        if found is None:
            return ChildBytes()
        sizes = [size for each in found if (size := self._size(each)) is not None]
        return ChildBytes(len(sizes), sum(size for size, _ in sizes), sum(size for _, size in sizes))

    def _descendants(self) -> list[int] | None:
        """Return all of them; None where the kernel does not say, or if they are too many."""
        # The kernel lists the children of each thread. We leave out threads that Python does not know.
        main = os.getpid()
        threads = {main, *(fact(each, "_native_id", 0) for each in listed().values())}
        if len(threads) > MOST_CHILDREN or files.text(f"{self._proc}/self/task/{main}/children") is None:
            return None
        found = [child for thread in threads for child in self._children_of("self", thread)]
        for each in found:  # it grows meanwhile
            if len(found) > MOST_CHILDREN:
                return None
            found += self._children_of(each, each)
        return found

    def _children_of(self, process: int | str, thread: int) -> Iterator[int]:
        words = (files.text(f"{self._proc}/{process}/task/{thread}/children") or "").split()
        return (each for word in words if (each := files.number(word)) is not None)

    def _size(self, process: int) -> tuple[int, int] | None:
        """Return the resident and the anonymous bytes of a process; None once it has ended."""
        words = (files.text(f"{self._proc}/{process}/statm") or "").split()
        resident, of_files = (files.number(word) for word in words[1:3]) if len(words) > 2 else (None, None)
        if not resident or of_files is None:
            return None
        return resident * PAGE, max(0, resident - of_files) * PAGE
