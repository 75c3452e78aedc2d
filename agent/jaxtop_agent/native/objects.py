"""Programs and libraries in the memory of this process, by their ELF headers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.native.memory import UnwindError

if TYPE_CHECKING:
    from jaxtop_agent.native.memory import MemoryArea, OwnMemory

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
_X86_64 = 62
_LOAD, _UNWIND_TABLE = 1, 0x6474E550
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
MOST_SEGMENTS = 128
PAGE = 4096


class ElfObject(NamedTuple):
    """A library or a program: `bias` is what is added to the addresses in its file."""

    path: str
    start: int
    bias: int
    table: int | None  # the address of the search table for unwinding

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2].removesuffix(" (deleted)") or "memory"


class ElfObjects:
    """Finds the object of an address; each is read once."""

    def __init__(self, memory: OwnMemory) -> None:
        self._memory = memory
        self._read: dict[int, ElfObject] = {}

    def at(self, address: int) -> ElfObject:
        """Return the object that contains this address; raise `UnwindError` if none does."""
        area = self._memory.area(address)
        if area is None:
            raise UnwindError(f"{address:#x} is not in the memory of this process")
        first = self._memory.first_of(area) if area.path else None
        if first is None:
            raise UnwindError(f"{address:#x} is in memory that belongs to no library")
        if first.start not in self._read:
            self._read[first.start] = self._object(first)
        return self._read[first.start]

    def _object(self, first: MemoryArea) -> ElfObject:
        memory = self._memory
        header = memory.read(first.start, _HEADER.size)
        _, machine, _, _, at, _, _, _, size, count, *_ = _HEADER.unpack(header)
        if not header.startswith(_MAGIC) or machine != _X86_64:
            raise UnwindError(f"{first.path} is no program or library for x86-64")
        if size != _SEGMENT.size or count > MOST_SEGMENTS:
            raise UnwindError(f"the header of {first.path} makes no sense")
        bias, table = None, None
        for index in range(count):
            kind, _, offset, virtual, *_ = _SEGMENT.unpack(memory.read(first.start + at + index * size, size))
            if kind == _LOAD and offset < PAGE and bias is None:
                bias = first.start - (virtual - offset)
            elif kind == _UNWIND_TABLE:
                table = virtual
        if bias is None:
            raise UnwindError(f"the header of {first.path} makes no sense")
        return ElfObject(first.path, first.start, bias, None if table is None else bias + table)
