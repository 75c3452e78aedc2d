"""Meshes as people type and read them; axis names that are not plain words are in quotes: `"data 1"=8`."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# The named axes of a mesh with their sizes, the slowest first.
Axes = tuple[tuple[str, int], ...]
# More devices than any machine has; a larger number is a slip of the fingers.
MOST_DEVICES = 1 << 20
_QUOTED = r"""\"[^"]+"|'[^']+'"""
NAME = re.compile(rf"[^\W\d][\w.-]*|{_QUOTED}")
_AXIS = re.compile(rf"\s*({NAME.pattern})\s*=\s*(\d{{1,9}})\s*")
_PIECE = re.compile(rf"{_QUOTED}|.", re.DOTALL)


class BadMesh(ValueError):
    """A text is not a mesh; the message is one line that says why."""


def parse(text: str) -> Axes:
    """Return the axes of a mesh such as `data=8,model=4`.

    Raises:
        BadMesh: The text is not a mesh, names an axis twice, or has more devices than there can be.
    """
    found = [_AXIS.fullmatch(each) for each in split(text, ",")]
    if not all(found):
        raise BadMesh(f"{text!r} is not a mesh such as data=8,model=4{hint(text)}")
    axes = tuple((unquoted(each[1]), int(each[2])) for each in found if each)
    if repeated := twice([name for name, _ in axes]):
        raise BadMesh(f"axis {repeated} stands twice in the mesh {text}")
    if empty := next((name for name, size in axes if not size), None):
        raise BadMesh(f"axis {empty} of the mesh {text} has no devices: its size must be at least 1")
    if prod(size for _, size in axes) > MOST_DEVICES:
        raise BadMesh(f"the mesh {text} has more than {MOST_DEVICES:,} devices")
    return axes


def split(text: str, separator: str) -> list[str]:
    """Return the pieces of a text between these characters; those within quotes do not count."""
    found = [""]
    for each in _PIECE.findall(text):
        if each == separator:
            found.append("")
        else:
            found[-1] += each
    return found


def unquoted(typed: str) -> str:
    """Return the name of an axis that may be typed in quotes."""
    return typed[1:-1] if typed[0] in "\"'" else typed


def hint(text: str) -> str:
    """Return how to type a name that is not a plain word, if the text may contain one."""
    return "; an axis that is no plain word stands in quotes" if re.search(r"[^\W\d]", text) else ""


def twice(names: Sequence[str]) -> str | None:
    """Return the first name that stands twice."""
    return next((name for i, name in enumerate(names) if name in names[:i]), None)
