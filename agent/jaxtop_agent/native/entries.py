"""Finds the entry of an address in the unwind tables: `.eh_frame_hdr` and `.eh_frame`."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.native.cursor import OMITTED, Cursor
from jaxtop_agent.native.memory import UnwindError

if TYPE_CHECKING:
    from jaxtop_agent.native.memory import OwnMemory
    from jaxtop_agent.native.objects import ElfObject

_VERSION = 1
_SORTED = 0x3B  # pairs of signed 32-bit numbers relative to the table: what all linkers write
_PAIR = struct.Struct("<ii")
_LONG = 0xFFFFFFFF
MOST_OF_ENTRY = 1 << 15


class CommonEntry(NamedTuple):
    """What entries share: factors, the register of the return address, and the first instructions."""

    code_factor: int
    data_factor: int
    returns_to: int
    instructions: bytes
    encoding: int
    has_details: bool
    is_signal: bool


class UnwindEntry(NamedTuple):
    """How to unwind the code from `start` to `end`."""

    start: int
    end: int
    instructions: bytes
    common: CommonEntry


def entry_of(memory: OwnMemory, found: ElfObject, pc: int) -> UnwindEntry:
    """Return the entry for an address in an object; raise `UnwindError` if it has none."""
    if found.table is None:
        raise UnwindError(f"{found.name} has no unwind table")
    entry = read_entry(memory, _search(memory, found.table, pc))
    if not entry.start <= pc < entry.end:
        raise UnwindError(f"{found.name} says nothing about {pc - found.bias:#x}")
    return entry


def _search(memory: OwnMemory, table: int, pc: int) -> int:
    """Return the address of the last entry that begins at or before `pc`."""
    cursor = Cursor(memory.read(table, 32), table)
    version, frames, counting, sorting = (cursor.byte() for _ in range(4))
    if version != _VERSION or sorting != _SORTED or OMITTED in {frames, counting}:
        raise UnwindError("an unwind table of an unknown form")
    cursor.encoded(frames, table)
    count = cursor.encoded(counting, table)
    first, low, high = table + cursor.at, 0, count
    while low < high:
        middle = (low + high) // 2
        start, _ = _PAIR.unpack(memory.read(first + middle * _PAIR.size, _PAIR.size))
        if table + start <= pc:
            low = middle + 1
        else:
            high = middle
    if not low:
        raise UnwindError("an address before all entries of the unwind table")
    _, entry = _PAIR.unpack(memory.read(first + (low - 1) * _PAIR.size, _PAIR.size))
    return int(table + entry)


def read_entry(memory: OwnMemory, at: int) -> UnwindEntry:
    body, size_of_length = _record(memory, at)
    cursor = Cursor(body, at + size_of_length)
    back = cursor.number("<I")
    if not back:
        raise UnwindError("an entry of an unwind table that is none")
    common = _common(memory, at + size_of_length - back)
    start = cursor.encoded(common.encoding)
    size = cursor.encoded(common.encoding & 0x0F)
    if common.has_details:
        cursor.block(cursor.unsigned())
    return UnwindEntry(start, start + size, cursor.rest(), common)


def _record(memory: OwnMemory, at: int) -> tuple[bytes, int]:
    """Return the body of a record, and the size of its length."""
    (size,) = struct.unpack("<I", memory.read(at, 4))
    head = 4
    if size == _LONG:
        size, head = memory.word(at + 4), 12
    if not 0 < size <= MOST_OF_ENTRY:
        raise UnwindError(f"an entry of {size} bytes in an unwind table")
    return memory.read(at + head, size), head


def _common(memory: OwnMemory, at: int) -> CommonEntry:
    body, head = _record(memory, at)
    cursor = Cursor(body, at + head)
    if cursor.number("<I"):
        raise UnwindError("an entry of an unwind table without a common entry")
    version = cursor.byte()
    if version not in {1, 3}:
        raise UnwindError(f"an unwind table of version {version}")
    details = cursor.text()
    code_factor, data_factor = cursor.unsigned(), cursor.signed()
    returns_to = cursor.byte() if version == 1 else cursor.unsigned()
    encoding, is_signal = 0, False
    if details and not details.startswith("z"):
        raise UnwindError(f"an unwind table with the details {details[:8]!r}")
    end = cursor.at
    if details:
        size = cursor.unsigned()
        end = cursor.at + size
        for letter in details[1:]:
            if letter == "R":
                encoding = cursor.byte()
            elif letter == "P":
                cursor.encoded(cursor.byte() & 0x0F)
            elif letter == "L":
                cursor.byte()
            elif letter == "S":
                is_signal = True
            else:
                break
    cursor.at = end
    return CommonEntry(
        code_factor, data_factor, returns_to, cursor.rest(), encoding, bool(details), is_signal
    )
