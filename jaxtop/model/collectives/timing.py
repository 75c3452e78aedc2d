"""One collective in one launch, after all members have reported its durations."""

from __future__ import annotations

from array import array
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.collectives.verdict import MISSING
from jaxtop.model.windows import Timing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop.model.collectives.layout import Layout
    from jaxtop.model.windows import Durations, Grouped, Groups, Team

# At most this many instances (groups times rounds) of one launch are kept, chosen at even intervals.
MOST_INSTANCES = 64


class Participants(NamedTuple):
    """The participants of a collective, and the places whose processes are not expected to report."""

    layout: Layout
    grouped: Grouped
    silent: set[int]


def timing_of(
    participants: Participants, rounds: Sequence[Mapping[str, Durations]], window: int, launch_us: int
) -> Timing | None:
    """Return the timing of a collective over all rounds in a launch; None if no group is complete."""
    layout, grouped, silent = participants
    waits: list[int] | None = None
    of_devices: Iterable[int] = ()
    longest: list[int] = []
    shortest: list[int] = []
    for reports in rounds:
        first, last, waited, by_member = _round(grouped.places, _by_place(layout, reports), silent)
        longest += first
        shortest += last
        if first and (waits is None or _most(waited) > _most(waits)):
            waits, of_devices = waited, by_member
    if waits is None:
        return None
    if max(longest) >= MISSING or min(shortest) < 0:
        return None  # no collective lasts an hour, and none lasts less than no time
    by_device = array("I", of_devices)
    starts = list(accumulate(map(len, grouped.places), initial=0))
    return Timing(
        window,
        launch_us,
        len(longest),
        _some(longest),
        _some(shortest),
        array("I", waits),
        by_device,
        tuple(_arrivals(team, starts, by_device) for team in grouped.teams),
        grouped,
    )


def timing_of_unknown_groups(
    rounds: Sequence[Mapping[str, Durations]], window: int, launch_us: int
) -> Timing | None:
    """Return a timing with durations but no waits, for a collective whose groups are unknown."""
    longest = []
    for reports in rounds:
        known = [each for durations in reports.values() for each in durations if each is not None]
        if known:
            longest.append(max(0, min(MISSING - 1, max(known))))
    if not longest:
        return None
    return Timing(window, launch_us, len(longest), _some(longest), array("I"), array("I"), None, (), None)


def _some(instances: Sequence[int]) -> array[int]:
    """Return as many instances as are kept, chosen at even intervals."""
    return array("I", instances[:: -(-len(instances) // MOST_INSTANCES)])


def _by_place(layout: Layout, reports: Mapping[str, Durations]) -> list[int | None]:
    found: list[int | None] = [None] * len(layout.assignment or ())
    for agent, durations in reports.items():
        first = layout.firsts.get(agent)
        if first is not None and len(durations) == len(layout.places[agent]):
            found[first : first + len(durations)] = durations
            continue
        for place, duration in zip(layout.places.get(agent, ()), durations, strict=False):
            if place is not None:
                found[place] = duration
    return found


def silent_places(layout: Layout, expected: set[str]) -> set[int]:
    """Return the places whose processes have no agent, or have reported nothing for long."""
    awaited = {place for agent in expected for place in layout.places.get(agent, ())}
    return set(range(len(layout.assignment or ()))) - awaited


def _round(
    places: Groups, durations: list[int | None], silent: set[int]
) -> tuple[list[int], list[int], list[int], Iterable[int]]:
    """Return the longest and shortest durations, the longest wait of each group, and each member's wait."""
    longest: list[int] = []
    shortest: list[int] = []
    waits: list[int] = []
    by_device: list[list[int]] = []
    for group in places:
        members = itemgetter(*group)(durations) if len(group) > 1 else (durations[group[0]],)
        if None in members:
            unknown = [MISSING] * len(group)
            known = [each for each in members if each is not None]
            is_whole = all(
                each is not None or place in silent for each, place in zip(members, group, strict=True)
            )
            if len(known) < min(2, len(group)) or not is_whole:
                waits.append(MISSING)
                by_device.append(unknown)
                continue
            first, last = max(known), min(known)
            by_device.append([MISSING if each is None else each - last for each in members])
        else:
            first, last = max(members), min(members)
            by_device.append([each - last for each in members])
        longest.append(first)
        shortest.append(last)
        waits.append(first - last)
    return longest, shortest, waits, chain.from_iterable(by_device)


def _most(waits: Sequence[int]) -> int:
    return max((each for each in waits if each != MISSING), default=-1)


def _arrivals(team: Team, starts: Sequence[int], by_device: array[int]) -> array[int]:
    """Return the wait of each unit: the shortest of its devices, and the median over several groups."""
    size = len(team.units)
    columns = []
    for number, row in team.rows:
        members = by_device[starts[number] : starts[number] + len(row)]
        if row == tuple(range(size)):
            columns.append(members)
            continue
        least = array("I", [MISSING]) * size
        for unit, wait in zip(row, members, strict=True):
            if unit >= 0 and wait < least[unit]:
                least[unit] = wait
        columns.append(least)
    if len(columns) == 1:
        return columns[0]
    half = (len(columns) - 1) // 2
    return array("I", [sorted(each)[half] for each in zip(*columns, strict=True)])
