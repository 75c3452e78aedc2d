"""Addresses of exported functions, read from the memory of a process.

The files of its libraries may be replaced, deleted or of another container. A debugger would stop the process
for seconds to read all of them.
"""

from __future__ import annotations

import errno
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ELF64 = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_LOAD, _DYNAMIC = 1, 2
_STRINGS, _SYMBOLS, _GNU_HASH = 5, 6, 0x6FFFFEF5
_INDIRECT = 10  # a symbol whose address is decided when the library is loaded
_MAX_DYNAMIC = 1 << 13
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ \d+ *(.*)")


class NotElf(ValueError):
    """What is mapped there is no 64-bit program or library."""


class ProcessMemory:
    """The memory of another process; opening it needs the same permission as a debugger does."""

    def __init__(self, pid: int) -> None:
        self._fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def read(self, address: int, size: int) -> bytes:
        return os.pread(self._fd, size, address)

    def numbers(self, layout: str, address: int) -> tuple[int, ...]:
        size = struct.calcsize(f"<{layout}")
        if len(found := self.read(address, size)) < size:  # it has ended
            raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
        return struct.unpack(f"<{layout}", found)

    def close(self) -> None:
        os.close(self._fd)


class Mapping(NamedTuple):
    """A part of a file in the address space of a process."""

    start: int
    end: int
    permissions: str
    offset: int
    path: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def mappings(pid: int) -> list[Mapping]:
    """Return the mapped files of a process."""
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text("utf-8", errors="replace").splitlines():
        start, end, permissions, offset, path = _MAPPING.fullmatch(line).groups()  # type: ignore[union-attr]
        if path.startswith("/"):
            path = path.removesuffix(" (deleted)")
            found.append(Mapping(int(start, 16), int(end, 16), permissions, int(offset, 16), path))
    return found


@dataclass(frozen=True)
class Image:
    """A program or library in memory: the tables in which its exported symbols are found."""

    memory: ProcessMemory
    bias: int  # what is added to the addresses in its file
    strings: int
    symbols: int
    hashes: int

    def find(self, name: str) -> int | None:
        """Return the address of an exported function or variable."""
        read = self.memory.numbers
        buckets, first, bloom, _ = read("4I", self.hashes)
        wanted = _hash(name)
        table = self.hashes + 16 + 8 * bloom
        (index,) = read("I", table + 4 * (wanted % buckets)) if buckets else (0,)
        while index >= max(first, 1):
            (found_hash,) = read("I", table + 4 * (buckets + index - first))
            if found_hash | 1 == wanted | 1:
                text, kind, _, section, value = read("IBBHQ", self.symbols + 24 * index)
                spelled = self.memory.read(self.strings + text, len(name) + 1)
                if section and kind & 15 != _INDIRECT and spelled == name.encode() + b"\0":
                    return self.bias + value
            if found_hash & 1:
                break
            index += 1
        return None


def image(memory: ProcessMemory, base: int) -> Image:
    """Return the program or library whose file begins at this address; raise `NotElf` for anything else."""
    try:
        header = memory.read(base, 64)
        if not header.startswith(ELF64):
            raise NotElf
        (at,), (size, count) = struct.unpack_from("<Q", header, 32), struct.unpack_from("<HH", header, 54)
        parts = [memory.numbers("IIQQQ", base + at + size * i)[:4] for i in range(count)]
        bias = base - next(address - offset for kind, _, offset, address in parts if kind == _LOAD)
        dynamic = next(bias + address for kind, _, _, address in parts if kind == _DYNAMIC)
        entries = _dynamic_section(memory, dynamic)
        tables = (entries[_STRINGS], entries[_SYMBOLS], entries[_GNU_HASH])
    except (struct.error, StopIteration, KeyError) as error:
        raise NotElf from error
    # The loader of glibc turns these into addresses, that of musl leaves them as they are in the file.
    return Image(memory, bias, *(each if each >= bias else each + bias for each in tables))


def _dynamic_section(memory: ProcessMemory, at: int) -> dict[int, int]:
    """Return its values by their tags; raise `NotElf` if it does not end."""
    found: dict[int, int] = {}
    for i in range(_MAX_DYNAMIC):
        tag, value = memory.numbers("QQ", at + 16 * i)
        if not tag:
            return found
        found[tag] = value
    raise NotElf


def _hash(name: str) -> int:
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value
