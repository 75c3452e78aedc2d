"""The durations of steps, from the times at which they end."""

from __future__ import annotations

from collections import Counter
from itertools import compress, groupby
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# A gap this many times as long as usual is a pause: the script saved its state, or a user stopped it.
PAUSE_FACTOR = 10
# A shorter gap is not a pause, however short the steps are.
MIN_PAUSE_NS = 250_000_000
# JAX launches at most this many programs ahead of the device.
MAX_PROGRAMS_AHEAD = 32
# A gap this short is only the time that launching takes. The waits are in the few gaps that are much longer.
ONLY_LAUNCHED_NS = 3_000_000
# The gaps over which the launches of each function per step are counted.
COUNTED_GAPS = 64
# If steps seem to take less than one part in this many of the time, the script waits for them elsewhere.
HARDLY_SEEN = 10
# A gap this many times as long as usual ends a stretch in which launches ran ahead of the device.
WAITED = 3
# This many short gaps in a row are launches that ran ahead.
SHORT_IN_A_ROW = 4
# Where launches run ahead, waits for the device differ in length by up to this factor.
WAITS_DIFFER = 4


class StepGap(NamedTuple):
    """The time from the end of one step to the end of the next, and the number of steps in it.

    `launched` has the number of launches of each function in the gap, `first` the time from the beginning of
    the gap to the function's first launch. `functions` are the keys of both.
    """

    end: int
    duration: int
    steps: int
    launched: Mapping[int, int]
    first: Mapping[int, int]
    functions: frozenset[int]


class StepDuration(NamedTuple):
    """When a step ended and how long it took; `is_own` unless that is a share of a time of several steps."""

    end: int
    duration: float
    is_own: bool = True


def launches_a_step(gaps: Sequence[StepGap]) -> dict[int, float]:
    """Return how often a step launches each of its usual functions."""
    usual, latest = _usual(gaps), gaps[-COUNTED_GAPS:]
    steps = sum(gap.steps for gap in latest)
    return {each: sum(gap.launched.get(each, 0) for gap in latest) / steps for each in usual}


def _usual(gaps: Sequence[StepGap]) -> frozenset[int]:
    return Counter(gap.functions for gap in gaps).most_common(1)[0][0]


def step_times(gaps: Sequence[StepGap], device_ns: int | None) -> list[StepDuration]:
    """Return when each step ended and how long it took, without the work between steps.

    Left out are pauses, and the part of a gap that follows the launch of an unusual function, such as an
    evaluation. Where launches ran ahead of the device, each step of the stretch gets an equal share of it.
    `device_ns` is how long the programs of a step take on the device, if the profiler measured it.
    """
    alike, usual, launches = _steps_only(gaps)
    steps, passed = sum(gap.steps for gap in gaps), sum(gap.duration for gap in gaps)
    if device_ns is not None and device_ns * steps > passed:
        device_ns = None  # it was measured on slower steps than these
    # A wait before the launch of an unusual function may still be a wait for the steps.
    cut = [until_other(gap, launches) for gap in gaps]
    if _is_hidden(gaps, alike, cut, usual, device_ns):
        return [StepDuration(gap.end, device_ns or passed / steps, False) for gap in gaps]  # no more is known
    if _runs_ahead(cut, usual, device_ns):
        longer_than = max(usual * WAITED, _typical_wait(cut) / WAITS_DIFFER)
        return list(_shared(_after_first_wait(cut, longer_than), longer_than))
    return list(_one_by_one(gaps, cut, usual))


def _steps_only(gaps: Sequence[StepGap]) -> tuple[list[StepGap], float, frozenset[int]]:
    """Return the gaps with usual functions only, their median per step, and the usual functions."""
    launches = _usual(gaps)
    alike = [gap for gap in gaps if gap.functions <= launches]
    if len(alike) * 2 < len(gaps):  # most gaps differ, so no set of functions is usual
        alike, launches = list(gaps), frozenset().union(*(gap.functions for gap in gaps))
    return alike, median(gap.duration / gap.steps for gap in alike), launches


def usual_step(gaps: Sequence[StepGap]) -> tuple[float, frozenset[int]] | None:
    """Return the median step and its functions; None where launches run ahead of the device."""
    _, usual, launches = _steps_only(gaps)
    return None if _runs_ahead(gaps, usual, None) else (usual, launches)


def from_wait_to_wait(gaps: Sequence[StepGap]) -> tuple[Sequence[StepGap], Sequence[StepGap]]:
    """Return the gaps whose work is paid for among them, and those after them whose wait is still to come.

    A wait pays for launches of up to MAX_PROGRAMS_AHEAD gaps before it. The launches of the first wait may be
    older than all gaps here, so the gaps up to it are left out. All gaps are returned where no two waits are
    that close to the ends, or less than half of the gaps lie between them.
    """
    usual = sum(gap.duration for gap in gaps) / sum(gap.steps for gap in gaps)
    waits = [i for i, gap in enumerate(gaps) if gap.duration > WAITED * usual * gap.steps]
    if not waits or waits[0] >= MAX_PROGRAMS_AHEAD or len(gaps) - 1 - waits[-1] > MAX_PROGRAMS_AHEAD:
        return gaps, ()
    if (waits[-1] - waits[0]) * 2 < len(gaps):
        return gaps, ()
    return gaps[waits[0] + 1 : waits[-1] + 1], gaps[waits[-1] + 1 :]


def _one_by_one(gaps: Sequence[StepGap], cut: Sequence[StepGap], usual: float) -> Iterable[StepDuration]:
    """Yield each step with the duration of its gap; steps launched ahead of one wait share its duration."""
    stretch: list[StepGap] = []
    debt, owed_from = 0.0, 0  # how far the device is behind, and since which step
    for whole, gap in zip(gaps, cut, strict=True):
        each = gap.duration / gap.steps
        is_whole = gap is whole
        if each <= max(usual * PAUSE_FACTOR, MIN_PAUSE_NS) and (is_whole or each > usual / 2):
            stretch.append(gap)
            debt = min(max(0.0, debt + usual - each), usual * MAX_PROGRAMS_AHEAD)
            owed_from = owed_from if debt else len(stretch)
            continue
        if usual * WAITED < each <= WAITED * debt:  # this gap is the wait for the steps launched ahead
            yield from _shared([*stretch, gap], each)
        else:
            yield from _taken(stretch)
        stretch, debt, owed_from = [], 0.0, 0
    if debt > usual * WAITED:  # the last launches may have run ahead, with their wait still to come
        is_long = [gap.duration * 2 >= usual * gap.steps for gap in stretch[owed_from:]]
        # A few short gaps among longer ones only differ; the longer ones were their waits.
        runs = (len(list(run)) for long, run in groupby(is_long) if not long)
        if max(runs, default=0) >= SHORT_IN_A_ROW:
            stretch[owed_from:] = compress(stretch[owed_from:], is_long)
    yield from _taken(stretch)


def _taken(gaps: Iterable[StepGap]) -> Iterable[StepDuration]:
    return (StepDuration(gap.end, gap.duration / gap.steps, gap.steps == 1) for gap in gaps)


def until_other(gap: StepGap, launches: frozenset[int]) -> StepGap:
    """Return the part of a gap before the first launch of a function that is not among these."""
    if gap.functions <= launches:
        return gap
    return gap._replace(duration=min(gap.first[each] for each in gap.functions - launches))


def _runs_ahead(gaps: Sequence[StepGap], usual: float, device_ns: int | None) -> bool:
    """Return whether most gaps are only the time that launching takes."""
    if device_ns is not None:
        return usual * 1.5 < device_ns
    total = sum(gap.duration for gap in gaps)
    waited = sum(gap.duration for gap in gaps if gap.duration > usual * gap.steps * WAITED)
    return usual < ONLY_LAUNCHED_NS and waited * 2 > total


def _typical_wait(gaps: Sequence[StepGap]) -> float:
    """Return the median gap per step, weighted by duration.

    A pause that is longer than all other gaps together does not count. Launching itself takes uneven times,
    so a multiple of the usual gap does not separate waits from launches.
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
    gaps: Sequence[StepGap],
    alike: Sequence[StepGap],
    cut: Sequence[StepGap],
    usual: float,
    device_ns: int | None,
) -> bool:
    """Return whether the script waits for its steps only during the work between them."""
    seen = sum(gap.duration for gap in cut)
    if device_ns is not None:
        return seen * 1.5 < device_ns * sum(gap.steps for gap in alike)
    return usual < ONLY_LAUNCHED_NS and seen * HARDLY_SEEN < sum(gap.duration for gap in gaps)


def _after_first_wait(gaps: Sequence[StepGap], longer_than: float) -> Sequence[StepGap]:
    """Leave out a stretch whose first launches may be forgotten, unless it is the only one."""
    waits = [i for i, gap in enumerate(gaps) if gap.duration >= longer_than * gap.steps]
    return gaps[waits[0] + 1 :] if len(waits) > 1 else gaps


def _shared(gaps: Iterable[StepGap], longer_than: float) -> Iterable[StepDuration]:
    """Divide each stretch that ends with a gap of at least this duration per step among its steps."""
    stretch: list[StepGap] = []
    for gap in gaps:
        stretch.append(gap)
        if gap.duration >= longer_than * gap.steps:
            steps = sum(one.steps for one in stretch)
            share = sum(one.duration for one in stretch) / steps
            yield from (StepDuration(one.end, share, steps == 1) for one in stretch)
            stretch = []
