"""Bytes read from and written to disks."""

from __future__ import annotations

import os
from typing import NamedTuple

from jaxtop_agent.machine import files

SECTOR = 512
MOST_OF_DISKS = 128 * 1024


class DiskTraffic(NamedTuple):
    """Bytes since the machine or the process started; None where unknown."""

    read: int | None = None
    written: int | None = None


class OwnTraffic(NamedTuple):
    """Bytes that the process has read and written since it started; None where unknown.

    `read` and `written` are traffic of disks. `…_in_all` has what caches, network and user-space file systems
    served, too.
    """

    read: int | None = None
    written: int | None = None
    read_in_all: int | None = None
    written_in_all: int | None = None


class Disks:
    """The disks of the machine.

    Only whole disks with hardware behind them count. Partitions, loop, mapped and striped devices pass their
    traffic on to these. Memory-backed devices do not count, and network file systems are not visible here.
    """

    def __init__(self, root: str = "") -> None:
        self._root = root
        self._is_hardware: dict[str, bool] = {}

    def read(self) -> DiskTraffic:
        content = files.text(f"{self._root}/proc/diskstats", MOST_OF_DISKS)
        read = written = None
        for line in (content or "").splitlines():
            words = line.split()
            if len(words) > 9 and self._is_disk(words[2]):
                sectors = files.number(words[5]), files.number(words[9])
                if sectors[0] is not None and sectors[1] is not None:
                    read = (read or 0) + sectors[0] * SECTOR
                    written = (written or 0) + sectors[1] * SECTOR
        return DiskTraffic(read, written)

    def _is_disk(self, name: str) -> bool:
        found = self._is_hardware.get(name)
        if found is None:
            if len(self._is_hardware) > 4096:  # device names may change without end
                self._is_hardware.clear()
            folder = f"{self._root}/sys/block/{name.replace('/', '!')}"
            found = self._is_hardware[name] = os.path.exists(f"{folder}/device")  # noqa: PTH110 - makes no Path
        return found


def of_process(root: str = "") -> OwnTraffic:
    content = files.numbers(files.text(f"{root}/proc/self/io"), ": ")
    read, written = content.get("read_bytes"), content.get("write_bytes")
    # System calls do not count what a mapped file reads, and disks do not count what caches serve.
    return OwnTraffic(
        read, written, _larger(read, content.get("rchar")), _larger(written, content.get("wchar"))
    )


def _larger(first: int | None, second: int | None) -> int | None:
    return max((each for each in (first, second) if each is not None), default=None)
