"""A growing file that is complete at any time. It has no lock, so a fork is harmless."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop.base import private

if TYPE_CHECKING:
    from pathlib import Path


class GrowingFile:
    """Content followed by an end, which the next content overwrites. The file never shrinks."""

    def __init__(self, path: Path) -> None:
        self._fd = private.create(path)
        self._pending: list[bytes] = []
        self._end = b""
        self._written = 0  # offset of the end in the file
        self._at = 0

    def write(self, data: bytes) -> None:
        """Add content; `flush` writes it to the file."""
        self._pending.append(data)
        self._at += len(data)

    def tell(self) -> int:
        return self._at

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def flush(self, end: bytes) -> None:
        """Write content and end to the file, where they survive if this process is killed."""
        pending, self._pending = b"".join(self._pending), []
        try:
            # The first byte is written last: until then readers see the old end, not half of the new content.
            data = pending + end
            self._put(data[1:], self._written + 1)
            self._put(data[:1], self._written)
        except OSError:
            with suppress(OSError):  # no room: the file remains as it was
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
        """Close the file; content that was not flushed is lost."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
