"""Matches the arguments of a program with arrays of the run, whose shardings on another mesh are known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.features.planning.messages import trimmed

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from jaxtop.features.planning.messages import NamedArray, Parts

_STEP = re.compile(r"\[('[^']*'|\"[^\"]*\"|[^\]]*)\]|([^.\[\]]+)")
# Stands for every key where there are too many to name.
_ANY = "*"
# Boxes around an array that some trees show as one more step.
_BOXES = frozenset({"value", "raw_value"})


class Side(NamedTuple):
    """An argument or a result of a program. `parts` is None if the compiler may choose its sharding.

    An argument with a written sharding is not open, even if `parts` cannot express that sharding.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    parts: Parts | None
    is_open: bool = False


class MatchedShardings(NamedTuple):
    """The new sharding of each side, None if it stays; and the names of the sides that stay in doubt."""

    parts: tuple[Parts | None, ...]
    doubtful: tuple[str, ...]


class _Ends:
    """The new shardings of arrays, by the last steps of their names."""

    def __init__(self) -> None:
        self._then: set[Parts] = set()
        self._before: dict[str, _Ends] = {}

    def add(self, steps: list[str], then: Parts) -> None:
        self._then.add(then)
        if steps:
            self._before.setdefault(steps[-1], _Ends()).add(steps[:-1], then)

    def find(self, steps: list[str], least_common: int) -> set[Parts]:
        """Return the shardings of the arrays that have most of the last steps in common."""
        before = None
        if steps:
            before = self._before.get(steps[-1]) or self._before.get(_ANY)
        if before is None:
            return set() if least_common > 0 else self._then
        return before.find(steps[:-1], least_common - 1)


def match(
    sides: Sequence[Side], arrays: Iterable[NamedArray], least_common: int = 0, unused: Container[str] = ()
) -> MatchedShardings:
    """Match by shape, data type and today's sharding; if several arrays remain, by the ends of their names.

    A side matches only arrays whose names end with at least `least_common` of the same steps. `unused` axes
    have size 1 today: a side may name them although its array does not, and the reverse.
    """
    alike: dict[tuple[object, ...], _Ends] = {}
    for each in arrays:
        ends = alike.setdefault((each.shape, each.dtype, _without_axes(each.today, unused)), _Ends())
        ends.add(_steps(each.name), trimmed(each.then))
    found: list[Parts | None] = []
    doubtful = []
    for side in sides:
        own = (
            None
            if side.parts is None
            else alike.get((side.shape, side.dtype, _without_axes(side.parts, unused)))
        )
        meant = set() if own is None else own.find(_steps(side.name), least_common)
        found.append(next(iter(meant)) if len(meant) == 1 else None)
        doubtful += [side.name] if len(meant) > 1 else []
    return MatchedShardings(tuple(found), tuple(doubtful))


def _without_axes(parts: Parts, unused: Container[str]) -> Parts:
    return trimmed(tuple(tuple(axis for axis in axes if axis not in unused) for axes in parts))


def _steps(name: str) -> list[str]:
    steps = [(match[1] or match[2]).strip("'\"") for match in _STEP.finditer(name)]
    while len(steps) > 1 and steps[-1] in _BOXES:
        steps.pop()
    return steps
