"""Memory that a script asked for and did not get, as its exception says."""

from __future__ import annotations

import re
from typing import NamedTuple

# Of XLA and its allocators, NumPy and Python.
_SAYS = re.compile(r"RESOURCE_EXHAUSTED|[Oo]ut of memory|Ran out of memory|Unable to allocate")
_TYPES = frozenset({"MemoryError", "_ArrayMemoryError"})
# Messages are untrusted: a number of hundreds of digits is not a size. NumPy writes "745. GiB".
_SIZE = r"(\d{1,18}(?:\.\d{0,18})?) ?(?:([KMGTPE])(?:i?B)?|B|bytes?)\b"
_ASKED = re.compile(rf"(?:[Aa]llocat(?:e|ing)|[Rr]eserve)(?: request for)? {_SIZE}(?: \((\d{{1,18}})B\))?")
_FREE = re.compile(rf"There are {_SIZE} free")
_USED = re.compile(rf"Used {_SIZE} of {_SIZE}")


class Size(NamedTuple):
    """A number of bytes; not exact if the message has it rounded."""

    bytes: int
    is_exact: bool = True


class Shortage(NamedTuple):
    """What was asked for, and what was free by the message itself; None where it does not say so."""

    asked: Size | None = None
    free: Size | None = None


def shortage_of(kind: str, message: str) -> Shortage | None:
    """Return what an exception of this type says about memory; None if it is about something else."""
    if kind not in _TYPES and not _SAYS.search(message):
        return None
    if used := _USED.search(message):  # the compiler of TPUs: a program that never fits
        return Shortage(_size(*used.group(1, 2)), _size(*used.group(3, 4)))
    asked, free = _ASKED.search(message), _FREE.search(message)
    return Shortage(
        None if asked is None else Size(int(asked[3])) if asked[3] else _size(*asked.group(1, 2)),
        None if free is None else _size(*free.group(1, 2)),
    )


def _size(number: str, unit: str | None) -> Size:
    """Return a size as XLA writes it: its units are powers of 1024, with and without an i."""
    return Size(round(float(number) * 1024 ** (None, *"KMGTPE").index(unit)), not unit)
