"""The scalars in an event file of TensorBoard, which is read as TensorBoard reads it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from jaxtop.base.protobuf import ProtobufMessage, read
from jaxtop_agent.logged.files import FileValue, added

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The bytes that are read at a time. A longer record than this is not a scalar.
BYTES_AT_ONCE, LONGEST_RECORD = 1 << 20, 1 << 16
# Of a record: the length of the data and its checksum before it, and one more after it.
_HEADER, _CHECKSUM = struct.Struct("<QI"), 4
# Fields of an event, of a value in its summary, and of a tensor.
_TIME, _STEP, _SUMMARY, _VALUES = 1, 2, 5, 1
_TAG, _SIMPLE, _TENSOR = 1, 2, 8
_TYPE, _CONTENT = 1, 4
# By number of the type: how one element is packed, and the field of elements that are not in `_CONTENT`.
_TYPES = {1: ("<f", 5), 2: ("<d", 6), 3: ("<i", 7), 9: ("<q", 10)}
_INTEGERS = {"<i", "<q"}  # outside of `_CONTENT` they have as many bytes as they need


class EventFile:
    """How far an event file was read."""

    def __init__(self, path: Path) -> None:
        self.path, self.at = path, 0

    def new_scalars(self) -> Iterator[FileValue]:
        """Yield the scalars that were added; an unfinished record is left for later."""
        data, end = added(self.path, self.at, BYTES_AT_ONCE), 0
        while end + _HEADER.size <= len(data):
            length, _ = _HEADER.unpack_from(data, end)
            first = end + _HEADER.size
            if length <= LONGEST_RECORD:
                if first + length + _CHECKSUM > len(data):
                    break
                yield from scalars_in(data[first : first + length])
            end = first + length + _CHECKSUM  # a long record may end beyond what was read
        self.at += end


def scalars_in(event: bytes) -> Iterator[FileValue]:
    """Yield the scalars of one event."""
    found = read(event)
    summary = found.message(_SUMMARY)
    step, at = found.number(_STEP) or 0, found.double(_TIME)
    for each in summary.messages(_VALUES) if summary is not None else ():
        tag, value = each.text(_TAG), _value_of(each)
        if tag and value is not None:
            yield FileValue(tag, step, value, at)


def _value_of(value: ProtobufMessage) -> float | None:
    """Return the number of a summary's value; None if it is something else, such as an image."""
    simple, tensor = value.raw(_SIMPLE), value.message(_TENSOR)
    if len(simple) == 4:
        return float(*struct.unpack("<f", simple))
    if tensor is None or (kind := _TYPES.get(tensor.number(_TYPE) or 0)) is None:
        return None
    packing, field = kind
    packed = tensor.raw(_CONTENT)
    if not packed and packing in _INTEGERS:
        numbers = tensor.numbers(field)
        return float(numbers[0]) if len(numbers) == 1 else None
    packed = packed or tensor.raw(field)
    return float(*struct.unpack(packing, packed)) if len(packed) == struct.calcsize(packing) else None
