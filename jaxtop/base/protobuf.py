"""The wire format of protocol buffers, by field number: a reader, which rejects malformed bytes; a writer."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
UNSIGNED = (1 << 64) - 1
# The places of the seven bits in each byte of a number, and the numbers that take one byte.
_SHIFTS = range(0, 70, 7)
_SHORT = [bytes((number,)) for number in range(0x80)]


class Malformed(Exception):
    """The bytes are not a valid message."""


class ProtobufMessage(NamedTuple):
    """The fields of one message in their order: field number, and an integer or bytes."""

    fields: tuple[tuple[int, int | bytes], ...]

    def numbers(self, field: int) -> list[int]:
        """Return the integers of a field, packed or not, read as signed."""
        found: list[int] = []
        for value in self._values(field):
            unsigned = [value] if isinstance(value, int) else list(_packed(value))
            found += [signed(each) for each in unsigned]
        return found

    def number(self, field: int) -> int | None:
        return next(iter(self.numbers(field)[-1:]), None)

    def doubles(self, field: int) -> list[float]:
        raw = b"".join(value for value in self._values(field) if isinstance(value, bytes))
        return [each for (each,) in struct.iter_unpack("<d", raw[: len(raw) // 8 * 8])]

    def double(self, field: int) -> float | None:
        return next(iter(self.doubles(field)[-1:]), None)

    def text(self, field: int) -> str | None:
        raw = [value for value in self._values(field) if isinstance(value, bytes)]
        return raw[-1].decode(errors="replace") if raw else None

    def texts(self, field: int) -> list[str]:
        return [each.decode(errors="replace") for each in self._values(field) if isinstance(each, bytes)]

    def raw(self, field: int) -> bytes:
        """Return bytes; empty if the field is missing."""
        return next((value for value in reversed(self._values(field)) if isinstance(value, bytes)), b"")

    def messages(self, field: int) -> list[ProtobufMessage]:
        return [read(value) for value in self._values(field) if isinstance(value, bytes)]

    def message(self, field: int) -> ProtobufMessage | None:
        return next(iter(self.messages(field)[-1:]), None)

    def _values(self, field: int) -> list[int | bytes]:
        return [value for number, value in self.fields if number == field]


def read(raw: bytes) -> ProtobufMessage:
    """Parse one level of a message; fixed-size numbers stay bytes."""
    return ProtobufMessage(
        tuple(
            (field, first if last is None else raw[first:last])
            for field, first, last in places(raw, 0, len(raw))
        )
    )


def places(raw: bytes, at: int, end: int) -> Iterator[tuple[int, int, int | None]]:
    """Yield the fields between two positions: number, integer and None, or number, first and last position.

    It copies nothing, so that a caller can pass over parts of a message that has many.
    """
    while at < end:
        key = raw[at]
        at += 1
        if key > 0x7F:
            key, at = varint(raw, at - 1)
        kind = key & 7
        if kind in (VARINT, BYTES):
            if at >= end:
                raise Malformed("a number that does not end")
            size = raw[at]  # or the value
            at += 1
            if size > 0x7F:
                size, at = varint(raw, at - 1)
                if at > end:
                    raise Malformed("a number that is longer than its message")
            if kind == VARINT:
                if key < 8:
                    raise Malformed("a field without a number")
                yield key >> 3, size, None
                continue
        elif kind in {FIXED64, FIXED32}:
            size = 8 if kind == FIXED64 else 4
        else:
            raise Malformed(f"a field of kind {kind}")
        if at + size > end:
            raise Malformed("a field that is longer than its message")
        yield key >> 3, at, at + size
        at += size


def run_end(raw: bytes, at: int, end: int, field: int, most: int) -> int:
    """Return where a run of fields with this number (below 16) and with bytes ends, which starts at `at`.

    It is the end of the last of them within `most` bytes, or of the first one if that is longer.
    """
    key, begin = field << 3 | BYTES, at
    while at < end and raw[at] == key:
        is_short = at + 1 < end and raw[at + 1] < 0x80
        size, after = (raw[at + 1], at + 2) if is_short else varint(raw, at + 1)
        after += size
        if after > end:
            raise Malformed("a field that is longer than its message")
        if after - begin > most and at > begin:
            break
        at = after
    return at


def _packed(raw: bytes) -> Iterator[int]:
    at = 0
    while at < len(raw):
        value, at = varint(raw, at)
        yield value


def varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    try:
        for bits in _SHIFTS:
            byte = raw[at]
            at += 1
            if byte < 0x80:
                return (value | byte << bits) & UNSIGNED, at
            value |= (byte & 0x7F) << bits
    except IndexError:
        raise Malformed("a number that does not end") from None
    raise Malformed("a number of more than 64 bits")


def signed(value: int) -> int:
    """Return a number of 64 bits, read as signed."""
    return value - (1 << 64) if value >> 63 else value


def encoded(number: int) -> bytes:
    """Return the bytes of an integer; negative ones take ten."""
    if 0 <= number <= 0x7F:
        return _SHORT[number]
    number &= UNSIGNED
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def number_field(field: int, number: int) -> bytes:
    return encoded(field << 3) + encoded(number)


def bytes_field(field: int, raw: bytes) -> bytes:
    return encoded(field << 3 | BYTES) + encoded(len(raw)) + raw


def text_field(field: int, text: str) -> bytes:
    return bytes_field(field, text.encode(errors="replace"))


def fixed_field(field: int, number: int) -> bytes:
    """Return a field with an unsigned integer of 64 bits that always takes eight bytes."""
    return encoded(field << 3 | FIXED64) + struct.pack("<Q", number & UNSIGNED)


def true_field(field: int) -> bytes:
    """Return a field that is true."""
    return number_field(field, 1)
