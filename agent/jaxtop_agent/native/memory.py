"""The memory of this process, read through the kernel: a wrong address is an error, never a fault."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from typing import NamedTuple

# The most bytes that are read of the list of mappings: it has room for 100,000 of them.
MOST_OF_MAPS = 16 << 20
PAGE = 4096
# Pages that are stored until the reader is closed.
MOST_PAGES = 1024
# The most bytes of one read: no frame, table entry or header is larger.
MOST_BYTES = 1 << 16
_WORD = struct.Struct("<Q")


class UnwindError(Exception):
    """Memory or a file that cannot be read or makes no sense; the text says why."""


class MemoryArea(NamedTuple):
    """A mapping of the process."""

    start: int
    end: int
    flags: str
    offset: int
    path: str


class OwnMemory:
    """Reads mapped and readable memory of this process; to be closed after use."""

    def __init__(self) -> None:
        self._areas = read_areas()
        self._starts = [each.start for each in self._areas]
        self._pages: dict[int, bytes] = {}
        self._file = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        self._pages.clear()
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def area(self, address: int) -> MemoryArea | None:
        """Return the mapping that contains an address."""
        at = bisect_right(self._starts, address) - 1
        return self._areas[at] if at >= 0 and address < self._areas[at].end else None

    def first_of(self, area: MemoryArea) -> MemoryArea | None:
        """Return the mapping with the beginning of the file of which `area` is a part."""
        at = bisect_right(self._starts, area.start) - 1
        while at >= 0 and self._areas[at].path == area.path:
            if self._areas[at].offset == 0:
                return self._areas[at]
            at -= 1
        # Between the parts of a library there may be memory without a file.
        earlier = (
            each for each in reversed(self._areas[: max(at, 0)]) if each.path == area.path and not each.offset
        )
        return next(earlier, None)

    def is_code(self, address: int) -> bool:
        area = self.area(address)
        return area is not None and "x" in area.flags

    def read(self, address: int, size: int) -> bytes:
        """Return these bytes; raise `UnwindError` unless all of them are mapped and readable."""
        if not 0 <= size <= MOST_BYTES:
            raise UnwindError(f"{size} bytes in one piece")
        parts = []
        while size > 0:
            inside = address % PAGE
            part = self._page(address - inside)[inside : inside + size]
            parts.append(part)
            address, size = address + len(part), size - len(part)
        return b"".join(parts)

    def word(self, address: int) -> int:
        found: int = _WORD.unpack(self.read(address, 8))[0]
        return found

    def _page(self, start: int) -> bytes:
        page = self._pages.get(start)
        if page is not None:
            return page
        area = self.area(start)
        if area is None or "r" not in area.flags:
            raise UnwindError(f"no readable memory at {start:#x}")
        try:
            page = os.pread(self._file, PAGE, start)
        except (OSError, OverflowError) as error:
            raise UnwindError(f"no readable memory at {start:#x}") from error
        if len(page) != PAGE:
            raise UnwindError(f"no readable memory at {start:#x}")
        if len(self._pages) >= MOST_PAGES:
            self._pages.clear()
        self._pages[start] = page
        return page


def read_areas() -> list[MemoryArea]:
    """Return the mappings of this process in order."""
    file = os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)
    parts: list[bytes] = []
    left = MOST_OF_MAPS
    try:
        while left > 0 and (part := os.read(file, 1 << 16)):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(file)
    return areas_of(b"".join(parts).decode(errors="surrogateescape"))


def areas_of(text: str) -> list[MemoryArea]:
    """Parse a list of mappings; raise `UnwindError` if it makes no sense."""
    found = []
    try:
        for line in text.splitlines():
            addresses, flags, offset, _, _, *path = line.split(None, 5)
            start, _, end = addresses.partition("-")
            found.append(
                MemoryArea(int(start, 16), int(end, 16), flags, int(offset, 16), path[0] if path else "")
            )
    except ValueError as error:
        raise UnwindError("the list of mappings cannot be read") from error
    return sorted(found)
