"""How long steps take, from the moments at which they are closed."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# A step that takes so many times the usual is no step: the script saved its state, or somebody stopped it.
# What is shorter than this is no pause, however short the steps are.
PAUSE, SHORTEST_PAUSE_NS = 10, 250_000_000
# JAX launches so many programs ahead of the device, at most.
AHEAD = 32
# Within so short a time scripts only launch; what they wait for shows in the few gaps that are much longer.
ONLY_LAUNCHED_NS = 3_000_000
# How often a step launches each function is counted over so many of them.
COUNTED = 64
# Where steps are but one part in so many of the time, they are waited for elsewhere.
HARDLY_SEEN = 10
# A gap so many times the usual ends a stretch in which launches ran ahead of the device.
WAITED = 3
# Where launches run ahead, one wait for the device is so many times as long as another.
WAITS_DIFFER = 4


class Gap(NamedTuple):
    """The time from the end of a step to that of the next one, and how many steps it holds.

    `launched` tells how often each function was launched meanwhile, `first` how long after the beginning.
    """

    end: int
    duration: int
    steps: int
    launched: Mapping[int, int]
    first: Mapping[int, int]


def launches_a_step(gaps: Sequence[Gap]) -> dict[int, float]:
    """How often a step launches each of the functions that it launches as a rule."""
    usual, latest = _usual(gaps), gaps[-COUNTED:]
    steps = sum(gap.steps for gap in latest)
    return {each: sum(gap.launched.get(each, 0) for gap in latest) / steps for each in usual}


def _usual(gaps: Sequence[Gap]) -> frozenset[int]:
    return Counter(frozenset(gap.launched) for gap in gaps).most_common(1)[0][0]


def step_times(gaps: Sequence[Gap], device_ns: int | None) -> list[tuple[int, float]]:
    """When steps ended, and how long each took; what was done between steps is left out.

    Left out is what follows the launch of another function than usual (an evaluation), and pauses. Where
    launches ran ahead of the device, each step of such a stretch took the same share of it.

    Args:
        gaps: The gaps, in their order; at least one.
        device_ns: How long a step's programs take on the device, where a profiler has told it.
    """
    launches = _usual(gaps)
    alike = [gap for gap in gaps if launches.issuperset(gap.launched)]
    if len(alike) * 2 < len(gaps):  # there is nothing usual in it
        alike, launches = list(gaps), frozenset().union(*(gap.launched for gap in gaps))
    usual = median(gap.duration / gap.steps for gap in alike)
    steps, passed = sum(gap.steps for gap in gaps), sum(gap.duration for gap in gaps)
    if device_ns is not None and device_ns * steps > passed:
        device_ns = None  # it was told of slower steps than these
    # What was waited for before something else was launched may still be that of the steps.
    cut = [_until_other(gap, launches) for gap in gaps]
    if _is_hidden(gaps, alike, cut, usual, device_ns):
        return _by_the_device(gaps, device_ns)
    if _runs_ahead(cut, usual, device_ns):
        return list(_shared(cut, max(usual * WAITED, _typical_wait(cut) / WAITS_DIFFER)))
    return list(_one_by_one(gaps, cut, usual))


def _one_by_one(gaps: Sequence[Gap], cut: Sequence[Gap], usual: float) -> Iterable[tuple[int, float]]:
    """Each step took as long as its gap, but for those that were launched ahead and waited for at once."""
    stretch: list[Gap] = []
    debt, owed_from = 0.0, 0  # of how much time the device is behind, and from which step on
    for whole, gap in zip(gaps, cut, strict=True):
        each = gap.duration / gap.steps
        is_whole = gap is whole
        if each <= max(usual * PAUSE, SHORTEST_PAUSE_NS) and (is_whole or each > usual / 2):
            stretch.append(gap)
            debt = min(max(0.0, debt + usual - each), usual * AHEAD)
            owed_from = owed_from if debt else len(stretch)
            continue
        if usual * WAITED < each <= WAITED * debt:  # it waited for what was launched ahead
            yield from _shared([*stretch, gap], each)
        else:
            yield from _taken(stretch)
        stretch, debt, owed_from = [], 0.0, 0
    if debt > usual * WAITED:  # what was launched ahead last has still to be waited for
        stretch[owed_from:] = [gap for gap in stretch[owed_from:] if gap.duration * 2 >= usual * gap.steps]
    yield from _taken(stretch)


def _taken(gaps: Iterable[Gap]) -> Iterable[tuple[int, float]]:
    return ((gap.end, gap.duration / gap.steps) for gap in gaps)


def _until_other(gap: Gap, launches: frozenset[int]) -> Gap:
    """The part of a gap in which no other functions than these were launched."""
    if launches.issuperset(gap.launched):
        return gap
    return gap._replace(duration=min(gap.first[each] for each in gap.first.keys() - launches))


def _runs_ahead(gaps: Sequence[Gap], usual: float, device_ns: int | None) -> bool:
    """Whether most gaps are only the time that launching takes."""
    if device_ns is not None:
        return usual * 1.5 < device_ns
    total = sum(gap.duration for gap in gaps)
    waited = sum(gap.duration for gap in gaps if gap.duration > usual * gap.steps * WAITED)
    return usual < ONLY_LAUNCHED_NS and waited * 2 > total


def _typical_wait(gaps: Sequence[Gap]) -> float:
    """The gap, a step, on whose either side half of the time is; a pause that outweighs all others is no gap.

    Launching takes uneven times itself, so a multiple of the usual gap does not tell waits from launches.
    """
    longest_first = sorted(((gap.duration / gap.steps, gap.duration) for gap in gaps), reverse=True)
    total = sum(duration for _, duration in longest_first)
    while len(longest_first) > 1 and longest_first[0][1] * 2 > total:
        total -= longest_first.pop(0)[1]
    left = total / 2
    for each, duration in longest_first:
        left -= duration
        if left <= 0:
            return each
    return 0.0


def _is_hidden(
    gaps: Sequence[Gap], alike: Sequence[Gap], cut: Sequence[Gap], usual: float, device_ns: int | None
) -> bool:
    """Whether steps are waited for only with what is done between them."""
    seen = sum(gap.duration for gap in cut)
    if device_ns is not None:
        return seen * 1.5 < device_ns * sum(gap.steps for gap in alike)
    return usual < ONLY_LAUNCHED_NS and seen * HARDLY_SEEN < sum(gap.duration for gap in gaps)


def _by_the_device(gaps: Sequence[Gap], device_ns: int | None) -> list[tuple[int, float]]:
    """What a profiler told; else all that was done, steps or not: more is not known."""
    share = device_ns or sum(gap.duration for gap in gaps) / sum(gap.steps for gap in gaps)
    return [(gap.end, share) for gap in gaps]


def _shared(gaps: Iterable[Gap], longer_than: float) -> Iterable[tuple[int, float]]:
    """Each stretch up to a gap that is as long, shared out among its steps."""
    stretch: list[Gap] = []
    for gap in gaps:
        stretch.append(gap)
        if gap.duration >= longer_than * gap.steps:
            share = sum(one.duration for one in stretch) / sum(one.steps for one in stretch)
            yield from ((one.end, share) for one in stretch)
            stretch = []
