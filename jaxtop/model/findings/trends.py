"""Figures that keep rising."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.model.liveness import HostView
    from jaxtop.model.state import PulseSample

# The fewest points of a trend.
MIN_POINTS = 12
# The shortest trend, in seconds.
SHORTEST_TREND = 30.0
# The blocks whose troughs decide whether a trend rises.
BLOCKS = 6


class Trend(NamedTuple):
    """A figure that keeps rising: its rise a minute, its recent maximum, and the seconds it was observed."""

    per_minute: float
    top: float
    seconds: float


def trend(points: Sequence[tuple[float, float | None]], shortest: float = SHORTEST_TREND) -> Trend | None:
    """Return how a figure rises, by the troughs of equal blocks of time; None if it does not keep rising.

    Troughs ignore what a program holds only while it runs. A figure that rises ever more slowly does not
    count: caches fill up like that after the start.
    """
    known = [(at, value) for at, value in points if value is not None]
    if len(known) < MIN_POINTS:
        return None
    first, span = known[0][0], known[-1][0] - known[0][0]
    if span < shortest:
        return None
    blocks: list[list[float]] = [[] for _ in range(BLOCKS)]
    for at, value in known:
        blocks[min(BLOCKS - 1, int((at - first) / span * BLOCKS))].append(value)
    if not all(blocks):
        return None
    lows = [min(block) for block in blocks]
    rises = [later - earlier for earlier, later in pairwise(lows)]
    gained = lows[-1] - lows[0]
    if gained <= 0 or rises[-1] <= 0 or sum(rise > 0 for rise in rises) < BLOCKS - 2:
        return None
    if min(rises) < -gained / 10 or lows[-1] - lows[3] < (lows[2] - lows[0]) / 2:
        return None
    per_minute = gained / (span * (BLOCKS - 1) / BLOCKS) * 60
    return Trend(per_minute, max(blocks[-1]), span)


def least(samples: Iterable[PulseSample]) -> list[int | None]:
    """Return the least memory that each device used in some samples; None where any is unknown."""
    columns = list({id(each.used_bytes): each.used_bytes for each in samples if each.used_bytes}.values())
    if len(columns) < 2:
        return list(columns[0]) if columns else []
    try:
        return list(map(min, *columns))
    except TypeError:  # some are unknown, which is rare: 8,192 devices are read every two seconds
        return [None if None in row else min(row) for row in zip(*columns, strict=False)]


def makes_steps(view: HostView) -> bool:
    """Return whether a process repeats a step. Before that it sets things up, and its memory grows."""
    return view.current.pulse.rhythm is not None or view.current.steps is not None
