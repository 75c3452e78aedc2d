"""A reader of the protocol buffer wire format, by field number; it rejects malformed bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Malformed(Exception):
    """The bytes are not a valid message."""


class Message(NamedTuple):
    """The fields of one message in their order: field number, and an integer or bytes."""

    fields: tuple[tuple[int, int | bytes], ...]

    def numbers(self, field: int) -> list[int]:
        """Return the integers of a field, packed or not, read as signed."""
        found: list[int] = []
        for value in self._values(field):
            unsigned = [value] if isinstance(value, int) else list(_packed(value))
            found += [each - (1 << 64) if each >> 63 else each for each in unsigned]
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

    def raw(self, field: int) -> bytes:
        """Return bytes; empty if the field is missing."""
        return next((value for value in reversed(self._values(field)) if isinstance(value, bytes)), b"")

    def messages(self, field: int) -> list[Message]:
        return [read(value) for value in self._values(field) if isinstance(value, bytes)]

    def message(self, field: int) -> Message | None:
        return next(iter(self.messages(field)[-1:]), None)

    def _values(self, field: int) -> list[int | bytes]:
        return [value for number, value in self.fields if number == field]


def read(raw: bytes) -> Message:
    """Parse one level of a message; fixed-size numbers stay bytes."""
    return Message(tuple(_fields(raw)))


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(raw):
        key, at = varint(raw, at)
        kind = key & 7
        if kind == VARINT:
            value, at = varint(raw, at)
            yield key >> 3, value
            continue
        if kind == BYTES:
            size, at = varint(raw, at)
        elif kind in {FIXED64, FIXED32}:
            size = 8 if kind == FIXED64 else 4
        else:
            raise Malformed(f"a field of kind {kind}")
        if at + size > len(raw):
            raise Malformed("a field that is longer than its message")
        yield key >> 3, raw[at : at + size]
        at += size


def _packed(raw: bytes) -> Iterator[int]:
    at = 0
    while at < len(raw):
        value, at = varint(raw, at)
        yield value


def varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at + place >= len(raw):
            raise Malformed("a number that does not end")
        byte = raw[at + place]
        value |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            return value & (1 << 64) - 1, at + place + 1
    raise Malformed("a number of more than 64 bits")


def text_field(field: int, text: str) -> bytes:
    """Encode a message with one text field."""
    raw = text.encode()
    assert len(raw) < 0x80
    return bytes((field << 3 | BYTES, len(raw))) + raw


def true_field(field: int) -> bytes:
    """Encode a message with one field that is true."""
    return bytes((field << 3 | VARINT, 1))
