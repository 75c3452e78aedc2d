"""Names of functions, from the symbol tables of programs and libraries.

The tables of a large library have hundreds of megabytes. They are read in pieces, and no file is mapped: a
mapped file that becomes shorter is a fault, a read is an error.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

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


class CodePlace(NamedTuple):
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
    memory: OwnMemory, found: ElfObject, places: Iterable[CodePlace], release_gil: Callable[[], None]
) -> dict[CodePlace, str]:
    """Return the names of functions of one object; raise `UnwindError` or OSError without its file."""
    if not found.path.startswith("/"):
        return {}
    file = os.open(found.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = os.pread(file, COMPARED, 0)
        if not head or head != memory.read(found.start, len(head)):
            raise UnwindError(f"{found.path} on disk is not what is in memory")
        return names_in(file, head, places, release_gil)
    finally:
        os.close(file)


def names_in(
    file: int, head: bytes, places: Iterable[CodePlace], release_gil: Callable[[], None]
) -> dict[CodePlace, str]:
    """Return the names of functions in an open file that begins with `head`."""
    search, tables = _Search(file, places, release_gil), _tables(file, head)
    for table, (offset, size, _) in enumerate(tables):
        search.read(table, offset, size)
    return {place: _text(file, tables[each.table][2] + each.name) for place, each in search.best.items()}


class _Search:
    """The best symbol found so far for each place."""

    def __init__(self, file: int, places: Iterable[CodePlace], release_gil: Callable[[], None]) -> None:
        self._file, self._release_gil = file, release_gil
        self._by_address: dict[int, list[CodePlace]] = {}
        for place in places:
            for address in {place.at, place.start}:
                if address is not None:
                    self._by_address.setdefault(address, []).append(place)
        self._addresses = sorted(self._by_address)
        self._sought = np.array(self._addresses, dtype=np.uint64)
        self.best: dict[CodePlace, _Candidate] = {}

    def read(self, table: int, offset: int, size: int) -> None:
        """Read a symbol table in pieces."""
        piece = AT_ONCE * _SYMBOL.itemsize
        for start in range(0, size, piece):
            data = _read(self._file, min(piece, size - start), offset + start)
            symbols = np.frombuffer(data[: len(data) // _SYMBOL.itemsize * _SYMBOL.itemsize], _SYMBOL)
            begins = symbols["at"]
            low = np.searchsorted(self._sought, begins)
            high = np.searchsorted(self._sought, begins + np.maximum(symbols["size"], 1))
            for index in np.flatnonzero((high > low) & (symbols["section"] != 0)).tolist():
                self._enter(table, symbols[index], self._addresses[low[index] : high[index]])
            self._release_gil()

    def _enter(self, table: int, symbol: Any, addresses: list[int]) -> None:
        kind, at, name = int(symbol["kind"]), int(symbol["at"]), int(symbol["name"])
        if kind & 15 not in {_NO_TYPE, _FUNCTION, _INDIRECT} or not name:
            return
        for address in addresses:
            for place in self._by_address[address]:
                is_exact = at == place.start
                # It names a function if it begins there, or contains the place itself.
                if at <= place.at and (is_exact or address == place.at):
                    found = _Candidate(is_exact, kind & 15 != _NO_TYPE, at, kind >> 4 == 1, table, name)
                    self.best[place] = max(self.best.get(place, found), found)


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


def _text(file: int, at: int) -> str:
    return _read(file, LONGEST_NAME, at).partition(b"\0")[0].decode(errors="replace")


def _exactly(file: int, at: int, size: int) -> bytes:
    data = _read(file, size, at)
    if len(data) != size:
        raise UnwindError("a library that ends too early")
    return data


def _read(file: int, size: int, at: int) -> bytes:
    try:
        return os.pread(file, size, at)
    except OverflowError as error:
        raise UnwindError("a library that points beyond its end") from error
