"""The files that writers have open, and the bytes added to one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class FileValue(NamedTuple):
    """A scalar in a file, and when the script logged it, in seconds since the epoch."""

    name: str
    step: int
    value: float
    at: float | None = None


def added(path: Path, at: int, most: int) -> bytes:
    """Return what stands in a file from this position on, at most `most` bytes."""
    with path.open("rb", buffering=0) as file:
        return os.pread(file.fileno(), most, at)


def open_files(processes: list[str], mark: str) -> Iterator[Path]:
    """Yield the files with this in their names that these processes, named as in `/proc`, have open."""
    for process in processes:
        try:
            descriptors = list(Path(f"/proc/{process}/fd").iterdir())
        except OSError:  # it has ended, or is another user's
            continue
        for descriptor in descriptors:
            try:
                target = descriptor.readlink()
            except OSError:  # closed meanwhile
                continue
            if target.is_absolute() and mark in target.name:
                yield target


def children_of_this() -> list[str]:
    """Return the processes that this one has started, as far as the kernel lists them."""
    found: list[str] = []
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - names are all that is needed
        try:
            found += Path(f"/proc/self/task/{thread}/children").read_text().split()
        except OSError:  # the thread has ended, or this kernel has no such file
            continue
    return found
