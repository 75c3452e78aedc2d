"""A file that is appended to. It has no lock and no end of its own: a forked child can do nothing to it."""

from __future__ import annotations

import os
import string
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


class AppendedFile:
    """What an MCAP writer needs of a file; what was written is in the file after `flush`."""

    def __init__(self, path: Path) -> None:
        self._fd = private.create(path)
        self._pending: list[bytes] = []
        self._at = 0

    def write(self, data: bytes) -> int:
        self._pending.append(data)
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Give it to the system, which keeps it when this process is killed."""
        pending, self._pending = b"".join(self._pending), []
        rest = memoryview(pending)
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def close(self) -> None:
        """Close it; what was not flushed is lost."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
