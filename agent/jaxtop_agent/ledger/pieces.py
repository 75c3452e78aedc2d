"""Pieces of time: their exact bounds, the samples in them, and the gap that each belongs to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping  # noqa: TC003
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Earlier sources win where spans overlap.
PHASE, ORBAX, COMPILING, GARBAGE = range(4)
IN_JAX, IN_SCRIPT = "in jax", "in the script"
# The script ends the workers of a loader: between steps that is a wait for input, after them it is the end.
CLOSING = "closes its input"
NOTHING: Mapping[str, float] = MappingProxyType({})


class Seconds(defaultdict[str, float]):
    """Seconds by kind."""

    def __init__(self, found: Mapping[str, float] = NOTHING) -> None:
        super().__init__(float, found)

    def add(self, found: Mapping[str, float]) -> None:
        for kind, seconds in found.items():
            self[kind] += seconds


class Sighting(NamedTuple):
    """What the main thread did: a kind that its stack shows, or `IN_JAX`, `IN_SCRIPT` or `CLOSING`."""

    at: float
    kind: str


class Span(NamedTuple):
    """A time that is known exactly; sources with a lower number win."""

    start: float
    end: float
    kind: str
    source: int


class LaunchAt(NamedTuple):
    """A launch, whether it evaluates, and whether the function is JAX's own."""

    at: float
    function: int
    evaluates: bool = False
    is_jaxs: bool = False


def cut(pieces: list[tuple[float, float]], holes: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return what is left of some pieces of time without the holes."""
    for low, high in holes:
        pieces = [
            (start, end)
            for whole_start, whole_end in pieces
            for start, end in ((whole_start, min(whole_end, low)), (max(whole_start, high), whole_end))
            if start < end
        ]
    return pieces


def nearest(free: list[tuple[float, float]], samples: Sequence[Sighting], otherwise: str) -> Seconds:
    """Return the lengths of time by the kind of the nearest sample; `otherwise` without samples."""
    found = Seconds()
    edges = [(one.at + other.at) / 2 for one, other in pairwise(samples)]
    kinds = [each.kind for each in samples] or [otherwise]
    for start, end in free:
        at = start
        for i, kind in enumerate(kinds):
            until = min(end, edges[i]) if i < len(edges) else end
            if until > at:
                found[kind] += until - at
                at = until
    return found
