"""Reads the numbers of which unwind tables consist."""

from __future__ import annotations

import struct

from jaxtop_agent.native.memory import UnwindError

# The formats of an encoded address, and what it is relative to.
_FORMATS = {
    0x00: "<Q", 0x02: "<H", 0x03: "<I", 0x04: "<Q", 0x0A: "<h", 0x0B: "<i", 0x0C: "<q",
}  # fmt: skip
ULEB, SLEB = 0x01, 0x09
ABSOLUTE, RELATIVE_TO_ITSELF, RELATIVE_TO_TABLE = 0x00, 0x10, 0x30
OMITTED = 0xFF
MOST_BITS = 70
WORD = (1 << 64) - 1


class Cursor:
    """A position in bytes that came from `address`; raises `UnwindError` beyond their end."""

    def __init__(self, data: bytes, address: int = 0, at: int = 0) -> None:
        self._data = data
        self._address = address
        self.at = at

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self._data)

    def number(self, form: str) -> int:
        """Return a number in a format of `struct`."""
        try:
            found: int = struct.unpack_from(form, self._data, self.at)[0]
        except struct.error as error:
            raise UnwindError("an unwind table ends too early") from error
        self.at += struct.calcsize(form)
        return found

    def byte(self) -> int:
        return self.number("<B")

    def unsigned(self) -> int:
        """Return a number in base 128."""
        return self._base_128()[0]

    def signed(self) -> int:
        value, bits, last = self._base_128()
        return value - (1 << bits) if last & 0x40 else value

    def _base_128(self) -> tuple[int, int, int]:
        value = bits = 0
        while bits < MOST_BITS:
            byte = self.byte()
            value |= (byte & 0x7F) << bits
            bits += 7
            if not byte & 0x80:
                return value, bits, byte
        raise UnwindError("a number in an unwind table has no end")

    def encoded(self, encoding: int, table: int = 0) -> int:
        """Return an encoded address; `table` is what addresses of the search table are relative to."""
        here = self._address + self.at
        low, high = encoding & 0x0F, encoding & 0x70
        if low in _FORMATS:
            value = self.number(_FORMATS[low])
        elif low in {ULEB, SLEB}:
            value = self.unsigned() if low == ULEB else self.signed()
        else:
            raise UnwindError(f"an address with the unknown encoding {encoding:#x}")
        base = {ABSOLUTE: 0, RELATIVE_TO_ITSELF: here, RELATIVE_TO_TABLE: table}.get(high)
        if base is None or encoding & 0x80:
            raise UnwindError(f"an address with the unknown encoding {encoding:#x}")
        return (value + base) & WORD

    def text(self) -> str:
        """Return text that ends with a zero."""
        end = self._data.find(b"\0", self.at)
        if end < 0:
            raise UnwindError("an unwind table ends too early")
        found = self._data[self.at : end].decode("latin-1")
        self.at = end + 1
        return found

    def block(self, size: int) -> bytes:
        found = self._data[self.at : self.at + size]
        if len(found) != size:
            raise UnwindError("an unwind table ends too early")
        self.at += size
        return found

    def rest(self) -> bytes:
        return self.block(len(self._data) - self.at)
