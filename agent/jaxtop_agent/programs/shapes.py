"""Shapes in the compiler's notation, and their bytes: `(f32[8,128]{1,0:T(8,128)S(1)}, u32[])`."""

from __future__ import annotations

import re
from math import prod
from typing import NamedTuple

_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\[\]]*)\](\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})?")
_COMMENT = re.compile(r"/\*[^*]*\*/")
_DIMENSION = re.compile(r"\s*(?:<=)?(\d+)\s*")
_ELEMENT_BITS = re.compile(r"E\((\d+)\)")
_FLOAT = re.compile(r"(?:bf|f)(4|6|8|16|32|64)(?:e\w+)?")
_OTHER_BITS = {"pred": 8, "token": 0, "c64": 64, "c128": 128}
_INTEGER = re.compile(r"[su](1|2|4|8|16|32|64)")
_CONSTANT = re.compile(r"= (\([^=\n]*\)|[^\s=(]+) constant\(")
# The depth of nested tuples that is read.
MAX_TUPLE_DEPTH = 20
MOST_SHOWN = 3


class Array(NamedTuple):
    """An array of a shape; `bytes` is None if the text does not determine it."""

    text: str
    bytes: int | None

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The size of each dimension; 1 for a dimension whose size the text does not state."""
        return tuple(1 if size is None else size for size in _sizes(self.text[self.text.index("[") + 1 : -1]))


Shape = Array | tuple["Shape", ...]


def read(text: str) -> Shape | None:
    """Parse a text that holds exactly one shape; None if it does not."""
    text = _COMMENT.sub("", text).strip()
    found, end = _read(text, 0, 0)
    return found if end == len(text) else None


def _read(text: str, at: int, depth: int) -> tuple[Shape | None, int]:
    if not text.startswith("(", at):
        match = _ARRAY.match(text, at)
        return (_array(match), match.end()) if match else (None, -1)
    if depth > MAX_TUPLE_DEPTH:
        return None, -1
    parts: list[Shape] = []
    at += 1
    while not text.startswith(")", at):
        part, at = _read(text, at, depth + 1)
        if part is None:
            return None, -1
        parts.append(part)
        while text.startswith((",", " "), at):
            at += 1
    return tuple(parts), at + 1


def _array(match: re.Match[str]) -> Array:
    dtype, dimensions, layout = match.groups()
    return Array(f"{dtype}[{dimensions}]", _bytes(dtype, dimensions, layout or ""))


def _bytes(dtype: str, dimensions: str, layout: str) -> int | None:
    bits = element_bits(dtype)
    if packed := _ELEMENT_BITS.search(layout):
        bits = int(packed[1][:3])
    sizes = _sizes(dimensions)
    stated = [size for size in sizes if size is not None]
    if bits is None or len(stated) < len(sizes):
        return None
    total = -(-prod(stated) * bits // 8)
    return total if total < 1 << 63 else None


def _sizes(dimensions: str) -> list[int | None]:
    """Return the size of each dimension; None where the text does not state it."""
    found = [_DIMENSION.fullmatch(each) for each in dimensions.split(",")] if dimensions else []
    return [int(size[1][:18]) if size else None for size in found]


def element_bits(dtype: str) -> int | None:
    """Return the bits of one element in transfer: four for an s4, although memory may use a byte."""
    if dtype in _OTHER_BITS:
        return _OTHER_BITS[dtype]
    match = _FLOAT.fullmatch(dtype) or _INTEGER.fullmatch(dtype)
    return int(match[1]) if match else None


def inside(text: str) -> tuple[Array, ...]:
    """Return the arrays whose shapes a text contains; older versions write them before each operand."""
    return tuple(_array(match) for match in _ARRAY.finditer(text))


def arrays(shape: Shape) -> tuple[Array, ...]:
    if isinstance(shape, Array):
        return (shape,)
    return tuple(array for part in shape for array in arrays(part))


def of_start(kind: str, shape: Shape) -> tuple[Shape, Shape] | None:
    """Return the operands and results in the shape of what starts a collective; None if it has no operands.

    The shape of an all-reduce has its operands only where they are a tuple of their own.
    """
    if isinstance(shape, Array) or len(shape) < 2 or (kind == "all-reduce" and isinstance(shape[0], Array)):
        return None
    return shape[0], shape[1]


def size(listed: tuple[Array, ...]) -> int | None:
    """Return the total bytes of these arrays; None if the bytes of one are unknown."""
    sizes = [array.bytes for array in listed]
    total = sum(each or 0 for each in sizes)
    return None if None in sizes or total >= 1 << 63 else total


def constant_bytes(printed: str) -> int | None:
    """Return the total bytes of the constants in the text of a module; None if the bytes of one are unknown.

    The compiler's figures for memory do not count constants inside fusions.
    """
    return size(tuple(array for each in _CONSTANT.finditer(printed) for array in inside(each[1])))


def words(listed: tuple[Array, ...]) -> str:
    """Return the arrays as text for display; of many, only the first ones."""
    if len(listed) == 1:
        return listed[0].text[:80]
    shown = [array.text[:40] for array in listed[:MOST_SHOWN]]
    if len(listed) > MOST_SHOWN:
        shown.append(f"{len(listed) - MOST_SHOWN} more")
    return f"({', '.join(shown)})"
