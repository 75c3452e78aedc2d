"""Names of functions, from the symbol tables of programs and libraries.

The tables of a large library have hundreds of megabytes. They are read in pieces, and no file is mapped: a
mapped file that becomes shorter is a fault, a read is an error.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jaxtop_agent.native.memory import UnwindError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop_agent.native.memory import OwnMemory
    from jaxtop_agent.native.objects import ElfObject

_HEADER = struct.Struct("<40xQ6xHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = np.dtype(
    [("name", "<u4"), ("kind", "u1"), ("other", "u1"), ("section", "<u2"), ("at", "<u8"), ("size", "<u8")]
)
_TABLES = {2, 11}  # .symtab and .dynsym
_NO_TYPE, _FUNCTION, _INDIRECT = 0, 2, 10
MOST_SECTIONS = 4096
# Symbols that are read at a time: numpy holds the GIL for less than a millisecond.
AT_ONCE = 16_384
MOST_SYMBOLS = 20_000_000
LONGEST_NAME = 4096
# The bytes at the beginning that have to be the same in the file and in memory.
COMPARED = 1024


class Place(NamedTuple):
    """An address in a file, and where its function begins there, if that is known."""

    at: int
    start: int | None


class _Candidate(NamedTuple):
    """Compared as a tuple: the largest one names the function."""

    is_exact: bool
    is_function: bool
    at: int
    is_global: bool
    table: int
    name: int


def function_names(
    memory: OwnMemory, found: ElfObject, places: Iterable[Place], breathe: Callable[[], None]
) -> dict[Place, str]:
    """Return the names of functions of one object; raise `UnwindError` or OSError without its file."""
    if not found.path.startswith("/"):
        return {}
    file = os.open(found.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = os.pread(file, COMPARED, 0)
        if not head or head != memory.read(found.start, len(head)):
            raise UnwindError(f"{found.path} on disk is not what is in memory")
        return _names_in(file, head, list(places), breathe)
    finally:
        os.close(file)


def _names_in(
    file: int, head: bytes, places: list[Place], breathe: Callable[[], None]
) -> dict[Place, str]:
    best: dict[Place, _Candidate] = {}
    tables = _tables(file, head)
    for table, (offset, size, _) in enumerate(tables):
        _search(file, table, offset, size, places, best, breathe)
    return {place: _text(file, tables[each.table][2] + each.name) for place, each in best.items()}


def _tables(file: int, head: bytes) -> list[tuple[int, int, int]]:
    """Return the offset and the size of each symbol table, and the offset of its names."""
    if len(head) < 64:
        raise UnwindError("a file that is too short for a library")
    at, _, _, size, count, _ = _HEADER.unpack(head[:64])
    if not at:
        return []
    if size != _SECTION.size or count > MOST_SECTIONS:
        raise UnwindError("the sections of a library make no sense")
    data = _exactly(file, at, size * count)
    sections = [_SECTION.unpack_from(data, index * size) for index in range(count)]
    found = []
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind in _TABLES and link < count:
            found.append((offset, min(length, MOST_SYMBOLS * _SYMBOL.itemsize), sections[link][4]))
    return found


def _search(
    file: int,
    table: int,
    offset: int,
    size: int,
    places: list[Place],
    best: dict[Place, _Candidate],
    breathe: Callable[[], None],
) -> None:
    """Enter the symbols of one table that contain a place, where they fit better than earlier ones."""
    by_address: dict[int, list[Place]] = {}
    for place in places:
        for address in {place.at, place.start}:
            if address is not None:
                by_address.setdefault(address, []).append(place)
    addresses = sorted(by_address)
    sought = np.array(addresses, dtype=np.uint64)
    piece = AT_ONCE * _SYMBOL.itemsize
    for start in range(0, size, piece):
        data = os.pread(file, min(piece, size - start), offset + start)
        symbols = np.frombuffer(data[: len(data) // _SYMBOL.itemsize * _SYMBOL.itemsize], _SYMBOL)
        begins = symbols["at"]
        low = np.searchsorted(sought, begins)
        high = np.searchsorted(sought, begins + np.maximum(symbols["size"], 1))
        for index in np.flatnonzero((high > low) & (symbols["section"] != 0)).tolist():
            symbol = symbols[index]
            kind, at = int(symbol["kind"]), int(symbol["at"])
            if kind & 15 not in {_NO_TYPE, _FUNCTION, _INDIRECT} or not symbol["name"]:
                continue
            for address in addresses[low[index] : high[index]]:
                for place in by_address[address]:
                    candidate = _Candidate(
                        at == place.start, kind & 15 != _NO_TYPE, at, kind >> 4 == 1, table, int(symbol["name"])
                    )
                    # A function that begins before the place, and not one that only contains its start.
                    if at <= place.at and (at == place.start or address == place.at):
                        best[place] = max(best.get(place, candidate), candidate)
        breathe()


def _text(file: int, at: int) -> str:
    return os.pread(file, LONGEST_NAME, at).partition(b"\0")[0].decode(errors="replace")


def _exactly(file: int, at: int, size: int) -> bytes:
    data = os.pread(file, size, at)
    if len(data) != size:
        raise UnwindError("a library that ends too early")
    return data
