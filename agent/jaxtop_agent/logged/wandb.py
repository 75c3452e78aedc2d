"""The scalars in a run's file of Weights & Biases, which its own process writes: a log in blocks, of records.

The format is that of LevelDB's log, with a header of its own: https://github.com/google/leveldb,
`doc/log_format.md`. A record is a message of W&B's `wandb_internal.proto`.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

from jaxtop.base.protobuf import read
from jaxtop_agent.logged.files import FileValue, added

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The header of the file, the size of a block, and the head of a part of a record: checksum, length, kind.
FILE_HEADER, BLOCK = 7, 1 << 15
_HEAD = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
BLOCKS_AT_ONCE, LONGEST_RECORD = 32, 1 << 24
# Fields of a record, of its history, of an item of that, and of a step.
_HISTORY, _ITEM, _STEP, _NUMBER = 2, 1, 2, 1
_KEY, _NESTED_KEY, _VALUE = 1, 2, 16
_OWN, _TIME = "_", "_timestamp"  # the first letter of what W&B adds itself, such as the time


class WandbFile:
    """How far the file of a run was read, with the begun record whose rest follows."""

    def __init__(self, path: Path) -> None:
        self.path, self._at, self._begun = path, FILE_HEADER, b""

    def new_scalars(self) -> Iterator[FileValue]:
        """Yield the scalars that were added."""
        data, start, end = added(self.path, self._at, BLOCKS_AT_ONCE * BLOCK), self._at, 0
        while end + _HEAD.size <= len(data):
            left = BLOCK - (start + end) % BLOCK
            if left < _HEAD.size:  # a block ends with zeros that hold no head
                end += left
                continue
            _, length, kind = _HEAD.unpack_from(data, end)
            first = end + _HEAD.size
            if kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST) or first + length > len(data):
                break
            part, end = data[first : first + length], first + length
            self._begun = part if kind in (_WHOLE, _FIRST) else self._begun + part
            if len(self._begun) > LONGEST_RECORD:
                raise ValueError("a record without end")
            if kind in (_WHOLE, _LAST):
                yield from scalars_in(self._begun)
                self._begun = b""
        self._at += end


def scalars_in(record: bytes) -> Iterator[FileValue]:
    """Yield the scalars of one record of the history."""
    history = read(record).message(_HISTORY)
    if history is None:
        return
    step = history.message(_STEP)
    number = (step.number(_NUMBER) if step is not None else None) or 0
    row = {
        item.text(_KEY) or ".".join(item.texts(_NESTED_KEY)): json.loads(item.text(_VALUE) or "null")
        for item in history.messages(_ITEM)
    }
    numbers = {name: float(value) for name, value in row.items() if type(value) in (int, float)}
    for name, value in numbers.items():
        if name and not name.startswith(_OWN):
            yield FileValue(name, number, value, numbers.get(_TIME))
