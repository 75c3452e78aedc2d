"""Who is late: statistics over the waits of those who meet in a collective. No clock, no host, no program.

A wait is how much longer a collective took for one than for the one that came last, in one launch. Launches
close to each other are alike, as one burst of other work makes a process late for all of them: so a window is
what counts, and one that is late must be so in each of the last few.
"""

from __future__ import annotations

from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ENOUGH_LAUNCHES = 6
ENOUGH_WINDOWS = 4
# A verdict is over so many windows: it follows within three when another one becomes late.
RECENT_WINDOWS = 3
SHARE = 0.75
# Who is named already stays so a little below the marks, or events would come and go.
STAYS = 0.7
# Processes on a CPU share its cores with others: up to so much is nobody's fault there.
AT_LEAST_US, AT_LEAST_US_ON_CPU = 5_000, 25_000
OF_LAUNCH = 0.03
# So many times the measured spread of the others, and of its own lead.
SPREADS, OWN_SPREADS = 3.0, 2.0
# What was long ago says little of now.
MOST_WINDOWS = 8
# And so many times what the last one is usually late by, where it is now this one, now that.
USUAL = 1.5
# From the median absolute deviation to what would be the standard deviation.
TO_SIGMA = 1.4826
# Of very many, so many are enough to measure the spread.
MOST_COMPARED = 16
MISSING = 0xFFFF_FFFF


class Arrivals(NamedTuple):
    """One launch: its window, how long it took, and the wait of each unit, MISSING where unknown."""

    window: int
    launch_us: int
    waits: Sequence[int]


class Verdict(NamedTuple):
    """Who comes last, in which part of the launches, and how long the others wait then."""

    unit: int
    share: float
    late_us: int


def is_enough(launches: Sequence[Arrivals]) -> bool:
    """Whether there is enough to name somebody, or to say that nobody is late."""
    return len(launches) >= ENOUGH_LAUNCHES and len({each.window for each in launches}) >= ENOUGH_WINDOWS


def verdict(
    launches: Sequence[Arrivals], named: int | None = None, at_least_us: int = AT_LEAST_US_ON_CPU
) -> Verdict | None:
    """Who clearly comes last lately, the oldest launch first; None where nobody stands out."""
    if not is_enough(launches):
        return None
    by_window: dict[int, list[Arrivals]] = {}
    for each in launches:
        by_window.setdefault(each.window, []).append(each)
    windows = list(by_window.values())
    # At first there is nothing to compare with, so one window more must agree.
    must = RECENT_WINDOWS if len(windows) > 2 * RECENT_WINDOWS else ENOUGH_WINDOWS
    recent = [each for window in windows[-must:] for each in window]
    last = [last_of(each.waits) for each in recent]
    suspect = max(dict.fromkeys(last), key=last.count)
    slack = STAYS if suspect == named else 1.0
    mark = slack * max(at_least_us, OF_LAUNCH * median(each.launch_us for each in recent))
    leads = [[_lead(each.waits, suspect) for each in window] for window in windows]
    # Once named, one odd window among them is forgiven; at their beginning it is none of them.
    odd = [i for i, each in enumerate(reversed(leads)) if median(each) < mark / 2]
    agreeing = next(iter(odd[suspect == named :]), len(leads))
    while agreeing - 1 in odd:
        agreeing -= 1
    if agreeing < must:
        return None
    agreeing = min(agreeing, MOST_WINDOWS)
    recent = [each for window in windows[-agreeing:] for each in window]
    own = [lead for window in leads[-agreeing:] for lead in window]
    share = sum(lead > 0 for lead in own) / len(own)
    usual = _usual(windows, len(windows) - agreeing)
    mark = max(
        mark,
        slack * OWN_SPREADS * _sigma(own),
        slack * SPREADS * spread(launches, suspect),
        slack * USUAL * usual,
    )
    if share < slack * SHARE or median(own) < mark:
        return None
    late = (_others(each.waits, suspect) for each, lead in zip(recent, own, strict=True) if lead > 0)
    return Verdict(suspect, share, round(median(late)))


def last_of(waits: Sequence[int]) -> int:
    """Who came last: the one who waited least."""
    return waits.index(min(waits))


def lateness(waits: Sequence[int]) -> int:
    """How long the others waited for the last one."""
    return round(_others(waits, last_of(waits)))


def spread(launches: Sequence[Arrivals], suspect: int | None = None) -> float:
    """How much arrivals differ from launch to launch, in microseconds: of all who are not suspected.

    Of two there is only the difference between them, which the suspect has a part in: then nothing is known.
    """
    units = [unit for unit in range(len(launches[0].waits)) if unit != suspect] if launches else []
    if len(units) < 2:
        return 0.0
    middles = [_others(each.waits, suspect) for each in launches]
    found = []
    for unit in units[:: -(-len(units) // MOST_COMPARED)]:
        known = [
            each.waits[unit] - middle
            for each, middle in zip(launches, middles, strict=True)
            if each.waits[unit] != MISSING
        ]
        if known:
            found.append(_sigma(known))
    found.sort()
    return found[(len(found) - 1) // 2] if found else 0.0


def _usual(windows: Sequence[Sequence[Arrivals]], earlier: int) -> float:
    """By how much the last one led in the worst of the earlier windows, where it was now this one, now that.

    Who led in several on end was late, and is so no longer: that says nothing of what is usual. Nor does who
    led in the oldest, for nobody knows since when.
    """
    led = [_led(window) for window in windows]
    worst, at = 0.0, 0
    for _, turn in groupby(led, key=lambda each: each[0]):
        leads = [lead for _, lead in turn]
        if at and len(leads) < RECENT_WINDOWS:
            worst = max(worst, *leads[: max(0, earlier - at)], 0.0)
        at += len(leads)
    return worst


def _led(window: Sequence[Arrivals]) -> tuple[int, float]:
    """Who led in it, and by how much."""
    last = [last_of(each.waits) for each in window]
    first = max(dict.fromkeys(last), key=last.count)
    return first, median(_lead(each.waits, first) for each in window)


def _lead(waits: Sequence[int], unit: int) -> int:
    """How much later it came than any other; negative where another one was later."""
    if waits[unit] == MISSING:
        return 0
    return min((wait for i, wait in enumerate(waits) if i != unit), default=0) - waits[unit]


def _others(waits: Sequence[int], unit: int | None) -> float:
    """The median wait of all others."""
    known = [wait for i, wait in enumerate(waits) if i != unit and wait != MISSING]
    return median(known) if known else 0.0


def _sigma(values: Iterable[float]) -> float:
    listed = list(values)
    middle = median(listed)
    return TO_SIGMA * median(abs(value - middle) for value in listed)
