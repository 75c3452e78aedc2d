"""Who is late in a collective: statistics over its waits, in which no clock, host or program takes part.

A wait is how much longer a collective took for one unit than for the unit that came last, in one launch.
Launches close to each other are alike, because one burst of other work delays a process in all of them. So
statistics count windows, and a late unit must be late in each of the last few.
"""

from __future__ import annotations

from itertools import chain, groupby, zip_longest
from math import sqrt
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from jaxtop.model.tuning import STRAGGLER, Number
from jaxtop.model.windows import MISSING, Straggler

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import CollectiveGroups, ProgramKey, ProgramWindows, TeamUnit, Timing

ENOUGH_LAUNCHES = 6
ENOUGH_WINDOWS = 4
# A verdict covers this many windows, so it follows within three when another unit becomes late.
AGREEING_WINDOWS = 3
# A late unit comes last in at least this share of the launches.
LAST_IN_SHARE = 0.75
# For a unit that is already named the thresholds are lower by this factor, or events would alternate.
HYSTERESIS = 0.7
# A unit is still late if it came last in this share of the launches of the last windows.
STILL_LATE = 0.5
# Processes on a CPU share its cores with others, so up to this much lateness is not attributed there.
LATE_MS = Number("collective_ms", 5.0, "late in a collective from this many milliseconds on", STRAGGLER)
LATE_MS_ON_CPU = Number("collective_ms_on_cpu", 25.0, "the same where the devices are CPUs", STRAGGLER)
# It must also be this share of a launch.
MIN_SHARE_OF_LAUNCH = 0.03
# The lead must be this many times the measured spread of the others, and of the unit's own lead.
SPREADS = 3.0
OWN_SPREADS = 2.0
# Older windows say little about the present. The more windows agree, the less their lead may be due to
# chance: the thresholds from spreads fall with the root of their number.
MAX_WINDOWS = 8
# The lead must also be this many times the usual lead of the last unit, where that unit keeps changing.
TIMES_USUAL_LEAD = 1.5
# The factor from the median absolute deviation to the standard deviation.
TO_SIGMA = 1.4826
# At most this many units are compared: enough to measure the spread.
MAX_COMPARED = 16

T = TypeVar("T")


class VerdictChange(NamedTuple):
    """The unit that came last in a collective before, and the one that does now; None where none does."""

    key: ProgramKey
    op: str
    before: Straggler | None
    now: Straggler | None


def reported_by(timings: Sequence[Timing], team: int) -> list[Timing]:
    """Return the launches that at least two units of a team reported."""
    return [each for each in timings if len(each.arrivals[team]) - each.arrivals[team].count(MISSING) > 1]


def judge(key: ProgramKey, windows: ProgramWindows, op: str, at_least_us: float) -> list[VerdictChange]:
    """Judge a collective of a program again; return the verdicts that have changed."""
    timings = windows.timings[op]
    before = {each.unit: each for each in windows.late.pop(op, ())}
    found = []
    if (grouped := timings[-1].grouped) is not None:
        lately = [each for each in timings if each.window_number == timings[-1].window_number]
        for number, team in enumerate(grouped.teams):
            waits = [_widest(each.arrivals[number]) for each in lately]
            if 2 * sum(each >= at_least_us * HYSTERESIS / 2 for each in waits) < len(waits):
                continue  # most teams are never late, so this check saves most of the work
            current = next((unit for unit in team.units if unit in before), None)
            late = straggler_in(reported_by(timings, number), number, current, at_least_us=at_least_us)
            if late is not None:
                found.append(late)
        windows.late[op] = tuple(found)
    now = {each.unit: each for each in found}
    gone = [each for unit, each in before.items() if unit not in now]
    come = [each for unit, each in now.items() if unit not in before]
    # A verdict that ended and a new one are reported together.
    return [VerdictChange(key, op, was, each) for was, each in zip_longest(gone, come)]


def straggler_of(
    cluster: ClusterState,
    grouped: CollectiveGroups | None,
    verdicts: Sequence[Straggler],
    waits: Mapping[int, int],
) -> Straggler | None:
    """Return the unit that is latest of those judged late; of a process, the device that waits least."""
    if not verdicts or grouped is None:
        return None
    late = max(verdicts, key=lambda each: each.late_us)
    host = cluster.hosts.get(late.agent)
    unit = late.unit
    if unit.device_id is None:
        own = {device.id for device in host.devices} if host else set()
        team = grouped.teams[late.team] if late.team < len(grouped.teams) else None
        members = [
            grouped.device_ids[number][place]
            for number, row in (team.rows if team else ())
            for place, index in enumerate(row)
            if grouped.device_ids[number][place] in own and index >= 0
        ]
        if not members:
            return None
        unit = unit._replace(device_id=min(members, key=lambda each: waits.get(each, MISSING)))
    if host is None:
        return late._replace(unit=unit)
    return late._replace(unit=unit, process_index=host.process_index, noun=host.noun)


def still_late(
    verdicts: Sequence[Straggler], present: Sequence[Timing], *, is_all: bool
) -> tuple[Straggler, ...]:
    """Return those of the late units that the latest windows of the present rhythm show to be late.

    A verdict may also rest on earlier windows: then `is_all` is false, and the present windows say how late a
    unit is.
    """
    numbers = sorted({each.window_number for each in present})[-AGREEING_WINDOWS:]
    lately = [each for each in present if each.window_number in numbers]
    found = []
    for late in verdicts:
        launches = reported_by(lately, late.team) if _has_team(lately, late) else []
        units = lately[-1].grouped.teams[late.team].units if launches and lately[-1].grouped else ()
        arrivals = [each.arrivals[late.team] for each in launches]
        own = [waits for waits in arrivals if units[last_of(waits)] == late.unit]
        if not own or len(own) < STILL_LATE * len(launches):
            continue
        late_us = late.late_us if is_all else round(median(map(wait_for_last, own)))
        found.append(late._replace(late_us=late_us))
    return tuple(found)


def _has_team(timings: Sequence[Timing], late: Straggler) -> bool:
    return bool(timings) and all(late.team < len(each.arrivals) for each in timings)


def _widest(waits: Sequence[int]) -> int:
    most = max(waits)
    return most if most != MISSING else max((each for each in waits if each != MISSING), default=0)


def is_enough(launches: Sequence[Timing]) -> bool:
    """Return whether there are enough launches to name a unit, or to state that none is late."""
    return (
        len(launches) >= ENOUGH_LAUNCHES and len({each.window_number for each in launches}) >= ENOUGH_WINDOWS
    )


def straggler_in(
    launches: Sequence[Timing],
    team: int,
    current: TeamUnit | None = None,
    *,
    at_least_us: float,
) -> Straggler | None:
    """Return the unit of a team that clearly comes last, from launches in order of time; None if none does.

    The launches are those that the team reported; `current` is the unit that came last until now.
    """
    grouped = launches[-1].grouped if launches else None
    if grouped is None or not is_enough(launches):
        return None
    units = grouped.teams[team].units
    windows = _waits_by_window(launches, team)
    # At first there are no earlier windows to compare with, so one more window must agree.
    windows_needed = AGREEING_WINDOWS if len(windows) > 2 * AGREEING_WINDOWS else ENOUGH_WINDOWS
    recent = _joined(windows[-windows_needed:])
    suspect = _suspect(recent)
    is_named = units[suspect] == current
    hysteresis = HYSTERESIS if is_named else 1.0
    launch_us = median(each.launch_us for each in launches[-len(recent) :])
    notable_us = max(at_least_us, MIN_SHARE_OF_LAUNCH * launch_us)
    leads = [[_lead(waits, suspect) for waits in window] for window in windows]
    agreeing = _agreeing_windows(leads, hysteresis * notable_us / 2, tolerated_windows=1 if is_named else 0)
    if agreeing < windows_needed:
        return None
    agreeing = min(agreeing, MAX_WINDOWS)
    own = _joined(leads[-agreeing:])
    share = sum(lead > 0 for lead in own) / len(own)
    least_lead_us = max(notable_us, _lead_by_chance(windows, agreeing, own, suspect))
    if share < hysteresis * LAST_IN_SHARE or median(own) < hysteresis * least_lead_us:
        return None
    agreed = zip(_joined(windows[-agreeing:]), own, strict=True)
    late_us = median(_others_wait(waits, suspect) for waits, lead in agreed if lead > 0)
    return Straggler(team, units[suspect], share, round(late_us))


def _waits_by_window(launches: Sequence[Timing], team: int) -> list[list[Sequence[int]]]:
    """Return the waits of a team in each launch, by window."""
    windows: dict[int, list[Sequence[int]]] = {}
    for each in launches:
        windows.setdefault(each.window_number, []).append(each.arrivals[team])
    return list(windows.values())


def _joined(windows: Iterable[Iterable[T]]) -> list[T]:
    return list(chain.from_iterable(windows))


def _suspect(launches: Sequence[Sequence[int]]) -> int:
    """Return the unit that came last in most of these launches."""
    last = [last_of(waits) for waits in launches]
    return max(dict.fromkeys(last), key=last.count)


def _lead_by_chance(
    windows: Sequence[Sequence[Sequence[int]]], agreeing: int, own: Sequence[int], suspect: int
) -> float:
    """Return the lead that a unit may have although none is late, from spreads and from earlier leads."""
    chance = min(1.0, sqrt(ENOUGH_WINDOWS / agreeing))
    return max(
        chance * OWN_SPREADS * _sigma(own),
        chance * SPREADS * spread(_joined(windows), suspect),
        TIMES_USUAL_LEAD * _usual_lead(windows, len(windows) - agreeing),
    )


def _agreeing_windows(leads: Sequence[Sequence[int]], least: float, *, tolerated_windows: int) -> int:
    """Return how many of the last windows agree that a unit comes last, with a median lead of at least this.

    Up to `tolerated_windows` windows may disagree, but not the oldest of those that are counted.
    """
    odd = [i for i, each in enumerate(reversed(leads)) if median(each) < least]
    agreeing = next(iter(odd[tolerated_windows:]), len(leads))
    while agreeing - 1 in odd:
        agreeing -= 1
    return agreeing


def last_of(waits: Sequence[int]) -> int:
    """Return the unit that came last: the one that waited least."""
    return waits.index(min(waits))


def wait_for_last(waits: Sequence[int]) -> int:
    """Return how long the others waited for the last one."""
    return round(_others_wait(waits, last_of(waits)))


def spread(launches: Sequence[Sequence[int]], suspect: int | None = None) -> float:
    """Return how much arrivals vary from launch to launch, in microseconds, over all units but the suspect.

    With two units, only the difference between them is known, and the suspect contributes to it. The result
    is 0 then.
    """
    units = [unit for unit in range(len(launches[0])) if unit != suspect] if launches else []
    if len(units) < 2:
        return 0.0
    middles = [_others_wait(waits, suspect) for waits in launches]
    found = []
    for unit in units[:: -(-len(units) // MAX_COMPARED)]:
        known = [
            waits[unit] - middle
            for waits, middle in zip(launches, middles, strict=True)
            if waits[unit] != MISSING
        ]
        if known:
            found.append(_sigma(known))
    found.sort()
    return found[(len(found) - 1) // 2] if found else 0.0


def _usual_lead(windows: Sequence[Sequence[Sequence[int]]], earlier: int) -> float:
    """Return the largest lead of a last unit in earlier windows, where the last unit kept changing.

    A unit that led in several consecutive windows was late and has recovered, so its lead is not usual. The
    unit that led in the oldest windows is left out, because it is unknown since when it led.
    """
    led = [_leader(window) for window in windows]
    worst, at = 0.0, 0
    for _, turn in groupby(led, key=lambda each: each[0]):
        leads = [lead for _, lead in turn]
        if at and len(leads) < AGREEING_WINDOWS:
            worst = max(worst, *leads[: max(0, earlier - at)], 0.0)
        at += len(leads)
    return worst


def _leader(window: Sequence[Sequence[int]]) -> tuple[int, float]:
    """Return the unit that came last in a window, and by how much."""
    suspect = _suspect(window)
    return suspect, median(_lead(waits, suspect) for waits in window)


def _lead(waits: Sequence[int], unit: int) -> int:
    """Return how much later a unit came than any other; negative if another one was later."""
    if waits[unit] == MISSING:
        return 0
    return min((wait for i, wait in enumerate(waits) if i != unit), default=0) - waits[unit]


def _others_wait(waits: Sequence[int], unit: int | None) -> float:
    """Return the median wait of all others."""
    known = [wait for i, wait in enumerate(waits) if i != unit and wait != MISSING]
    return median(known) if known else 0.0


def _sigma(values: Iterable[float]) -> float:
    listed = list(values)
    middle = median(listed)
    return TO_SIGMA * median(abs(value - middle) for value in listed)
