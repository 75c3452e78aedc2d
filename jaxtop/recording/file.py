"""A growing file that is complete at any time. It has no lock: a forked child can do nothing to it."""

from __future__ import annotations

import os
import string
from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop import private

if TYPE_CHECKING:
    from pathlib import Path

_PLAIN = frozenset(string.ascii_letters + string.digits + "._-")
LONGEST_NAME = 60


def plain(name: str) -> str:
    """A part of a file name, whatever the name is: nothing that a shell or a file system takes amiss."""
    found = "".join(each if each in _PLAIN else "_" for each in name[:LONGEST_NAME])
    return f"_{found[1:]}" if found[:1] in ("-", ".") else found  # an option, a hidden file


class GrowingFile:
    """Content with an end behind it, which the next content is written over. The file never shrinks."""

    def __init__(self, path: Path) -> None:
        self._fd = private.create(path)
        self._pending: list[bytes] = []
        self._end = b""
        self._written = 0  # where the end begins in the file
        self._at = 0

    def write(self, data: bytes) -> None:
        """Add content; it is in the file after `flush`."""
        self._pending.append(data)
        self._at += len(data)

    def tell(self) -> int:
        """Bytes of content so far."""
        return self._at

    @property
    def has_pending(self) -> bool:
        """Whether content waits for a flush."""
        return bool(self._pending)

    def flush(self, end: bytes) -> None:
        """Give content and end to the system, which keeps them when this process is killed."""
        pending, self._pending = b"".join(self._pending), []
        try:
            # The first byte comes last: until then readers meet the old end, and no half of the new content.
            data = pending + end
            self._put(data[1:], self._written + 1)
            self._put(data[:1], self._written)
        except OSError:
            with suppress(OSError):  # no room: the file stays as it was
                self._put(self._end, self._written)
                os.ftruncate(self._fd, self._written + len(self._end))
            raise
        self._written += len(pending)
        self._end = end

    def _put(self, data: bytes, at: int) -> None:
        rest = memoryview(data)
        while rest:
            count = os.pwrite(self._fd, rest, at)
            rest, at = rest[count:], at + count

    def close(self) -> None:
        """Close it; what was not flushed is lost."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
