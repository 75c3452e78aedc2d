"""The waits in a collective: in one launch, once all members have reported it, and over several launches."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.windows import MISSING, Timing

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterable, Iterator, Sequence

    from jaxtop.model.collectives.layout import Layout
    from jaxtop.model.windows import CollectiveGroups, Durations, Groups, Team

# At most this many instances (groups times rounds) of one launch are kept, chosen at even intervals.
MAX_INSTANCES = 64
# A group that no launch of this many windows timed has no current waits.
CURRENT_WINDOWS = 4


class Participants(NamedTuple):
    """The participants of a collective, and the places whose processes are not expected to report."""

    layout: Layout
    grouped: CollectiveGroups
    without_report: set[int]


def timing_of(
    participants: Participants, rounds: Sequence[Mapping[str, Durations]], window: int, launch_us: int
) -> Timing | None:
    """Return the timing of a collective over all rounds in a launch; None if no group is complete."""
    layout, grouped, without_report = participants
    waits: list[int] | None = None
    of_devices: Iterable[int] = ()
    longest: list[int] = []
    shortest: list[int] = []
    for reports in rounds:
        first, last, waited, by_member = _waits_of_round(
            grouped.places, _durations_by_place(layout, reports), without_report
        )
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
        _sampled(longest),
        _sampled(shortest),
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
    return Timing(window, launch_us, len(longest), _sampled(longest), array("I"), array("I"), None, (), None)


def _sampled(instances: Sequence[int]) -> array[int]:
    """Return as many instances as are kept, chosen at even intervals."""
    return array("I", instances[:: -(-len(instances) // MAX_INSTANCES)])


def _durations_by_place(layout: Layout, reports: Mapping[str, Durations]) -> list[int | None]:
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


def places_without_report(layout: Layout, expected: set[str]) -> set[int]:
    """Return the places whose processes have no agent, or have reported nothing for long."""
    awaited = {place for agent in expected for place in layout.places.get(agent, ())}
    return set(range(len(layout.assignment or ()))) - awaited


def _waits_of_round(
    places: Groups, durations: list[int | None], without_report: set[int]
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
                each is not None or place in without_report
                for each, place in zip(members, group, strict=True)
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


# Over several launches


def longest_wait(timings: Sequence[Timing]) -> int | None:
    """Return the longest wait in a group, as its median over the launches, of the group that waits most."""
    most = None
    if _some_missing(timings):
        columns = [[max(row) for row in zip(*of_group.values(), strict=True)] for of_group in _alike(timings)]
    else:
        columns = [
            list(waits) for waits in zip(*(each.waits for each in timings if each.grouped), strict=True)
        ]
    for of_group in columns:
        known = [wait for wait in of_group if wait != MISSING]
        if known:
            wait = _lower_median(known)  # as for each device, and for durations
            most = wait if most is None or wait > most else most
    return most


def duration_with(timings: Sequence[Timing], wait_us: int | None) -> int | None:
    """Return the median duration in the group that waits most, from the launches that show this wait.

    None where launches do not tell groups apart: loops, and launches that not all groups reported.
    """
    whole = [
        each
        for each in timings
        if len(each.longest) == len(each.waits) == each.instances and MISSING not in each.waits
    ]
    if wait_us is None or not whole or len(whole) < len(timings):
        return None
    for waits, durations in zip(
        zip(*(each.waits for each in whole), strict=True),
        zip(*(each.longest for each in whole), strict=True),
        strict=True,
    ):
        if _lower_median(waits) == wait_us:
            return _lower_median(durations)
    return None


def _some_missing(timings: Sequence[Timing]) -> bool:
    return any(each.by_device is not None and MISSING in each.by_device for each in timings)


def _alike(timings: Sequence[Timing]) -> Iterator[dict[int, list[int]]]:
    """Yield the waits of the devices of each group, from the launches that the same devices reported.

    These are the devices that reported the group's last launch. If launches with other devices were included,
    a device could have a longer median wait than its group.
    """
    grouped = timings[-1].grouped
    kept = [each for each in timings if each.by_device is not None]
    recent = timings[-1].window_number - CURRENT_WINDOWS
    start = 0
    for ids in grouped.device_ids if grouped else ():
        rows = [(each.window_number, (each.by_device or ())[start : start + len(ids)]) for each in kept]
        start += len(ids)
        known = [(window, row) for window, row in rows if min(row) != MISSING]
        if not known or known[-1][0] <= recent:
            continue
        members = [place for place, wait in enumerate(known[-1][1]) if wait != MISSING]
        alike = [
            row
            for _, row in known
            if len(row) - row.count(MISSING) == len(members)
            and all(row[place] != MISSING for place in members)
        ]
        yield {ids[place]: [row[place] for row in alike] for place in members}


class DeviceWaits(Mapping[int, int]):
    """The median wait of each device. It is derived on first access, as there may be thousands of devices."""

    __slots__ = ("_found", "_timings")

    def __init__(self, timings: Sequence[Timing]) -> None:
        self._timings = timings
        self._found: dict[int, int] | None = None

    def _waits(self) -> dict[int, int]:
        if self._found is None:
            self._found = _waits_of(self._timings)
        return self._found

    def __getitem__(self, device_id: int) -> int:
        return self._waits()[device_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._waits())

    def __len__(self) -> int:
        return len(self._waits())

    def items(self) -> ItemsView[int, int]:
        return self._waits().items()  # much faster than one look-up per device


def _waits_of(timings: Sequence[Timing]) -> dict[int, int]:
    """Return the median wait of each device, from the launches whose waits are stored by device."""
    grouped = timings[-1].grouped if timings else None
    if grouped is None:
        return {}
    columns = [each.by_device for each in timings if each.by_device is not None]
    if not _some_missing(timings):
        ids = chain.from_iterable(grouped.device_ids)
        of_devices = zip(ids, zip(*columns, strict=True), strict=True)
        return {device_id: _lower_median(waits) for device_id, waits in of_devices if waits}
    return {
        device_id: _lower_median(waits)
        for of_group in _alike(timings)
        for device_id, waits in of_group.items()
    }


def _lower_median(waits: Sequence[int]) -> int:
    return sorted(waits)[(len(waits) - 1) // 2]
