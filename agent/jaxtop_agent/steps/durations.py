"""How long steps take, from the moments at which they are closed."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# A step that takes so many times the usual is no step: the script saved its state, or somebody stopped it.
PAUSE = 10
# JAX launches so many programs ahead of the device, at most.
AHEAD = 32
# Within so short a time scripts only launch; what they wait for shows in the few gaps that are much longer.
ONLY_LAUNCHED_NS = 3_000_000
# A gap so many times the usual ends a stretch in which launches ran ahead of the device.
WAITED = 3


class Gap(NamedTuple):
    """The time from the end of a step to that of the next one; how many steps it holds, what was launched."""

    end: int
    duration: int
    steps: int
    launched: frozenset[int]


def step_times(gaps: Sequence[Gap], device_ns: int | None) -> list[tuple[int, float]]:
    """When steps ended, and how long each took; what was done between steps is left out.

    Gaps in which other functions were launched than usual (an evaluation) are no steps, nor are pauses. Where
    launches ran ahead of the device, each step of such a stretch took the same share of it.

    Args:
        gaps: The gaps, in their order.
        device_ns: How long a step's programs take on the device, where a profiler has told it.
    """
    alike = _alike(gaps)
    if not alike:
        return []
    usual = median(gap.duration / gap.steps for gap in alike)
    if _runs_ahead(alike, usual, device_ns):
        return list(_shared(alike, usual * WAITED))
    found: list[tuple[int, float]] = []
    stretch: list[Gap] = []
    debt = 0.0
    for gap in alike:
        each = gap.duration / gap.steps
        if each < usual / 2:
            debt = min(debt + usual - each, usual * AHEAD)
        if each <= usual * PAUSE:
            stretch.append(gap)
            continue
        if each <= WAITED * debt:  # it waited for what was launched ahead
            found += _shared([*stretch, gap], each)
        else:
            found += ((one.end, one.duration / one.steps) for one in stretch)
        stretch, debt = [], 0.0
    found += ((one.end, one.duration / one.steps) for one in stretch)
    return found


def _alike(gaps: Sequence[Gap]) -> list[Gap]:
    """Those in which was launched what is usual; all, if nothing is."""
    seen = Counter(gap.launched for gap in gaps)
    if not seen:
        return []
    usual, times = seen.most_common(1)[0]
    return list(gaps) if times * 2 < len(gaps) else [gap for gap in gaps if gap.launched == usual]


def _runs_ahead(gaps: Sequence[Gap], usual: float, device_ns: int | None) -> bool:
    """Whether most gaps are only the time that launching takes."""
    if device_ns is not None:
        return usual * 1.5 < device_ns
    total = sum(gap.duration for gap in gaps)
    waited = sum(gap.duration for gap in gaps if gap.duration > usual * gap.steps * WAITED)
    return usual < ONLY_LAUNCHED_NS and waited * 2 > total


def _shared(gaps: Iterable[Gap], longer_than: float) -> Iterable[tuple[int, float]]:
    """Each stretch up to a gap that is as long, shared out among its steps."""
    stretch: list[Gap] = []
    for gap in gaps:
        stretch.append(gap)
        if gap.duration >= longer_than * gap.steps:
            share = sum(one.duration for one in stretch) / sum(one.steps for one in stretch)
            yield from ((one.end, share) for one in stretch)
            stretch = []
