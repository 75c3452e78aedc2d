"""What the timings of a collective show: durations, waits, and who comes last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.model.collectives.timing import arrivals_of
from jaxtop.model.collectives.verdict import MISSING, is_enough

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import Grouped, Late, ProgramKey, Timing


@dataclass(frozen=True, slots=True)
class Straggler:
    """The participant that came last: one of its devices, its share of the launches, and how late it was."""

    agent: str
    process_index: int | None
    device_id: int
    share: float
    late_us: int


class Measured(NamedTuple):
    """The measurements of a collective, derived from its timings."""

    late: tuple[Late, ...]
    samples: int
    p50: int | None
    p99: int | None
    transfer: int | None
    wait: int | None
    is_enough: bool
    waits: Mapping[int, int]


def measured(cluster: ClusterState, key: ProgramKey, op: str, members: Collection[Any]) -> Measured:
    """Return what windows showed of a collective; `members` are all collectives that there are."""
    windows = cluster.windows.programs.get(key)
    timings = windows.timings.get(op, ()) if windows else ()
    late = windows.late.get(op, ()) if windows else ()
    return cluster.derived.of(
        "measured", (*key, op), members, (timings, late), lambda: _measure(timings, late)
    )


def _measure(timings: tuple[Timing, ...], late: tuple[Late, ...]) -> Measured:
    longest = sorted(chain.from_iterable(each.longest for each in timings))
    shortest = [each for timing in timings for each in timing.shortest]
    teams = timings[-1].grouped.teams if timings and timings[-1].grouped else ()
    return Measured(
        late,
        sum(each.instances for each in timings),
        longest[(len(longest) - 1) // 2] if longest else None,
        longest[-1 - len(longest) // 100] if longest else None,
        round(median(shortest)) if shortest else None,
        _longest_wait(timings),
        bool(teams) and is_enough(arrivals_of(timings, 0)),
        Waits(timings),
    )


def _longest_wait(timings: Sequence[Timing]) -> int | None:
    """Return the largest, over all groups, of the median of the group's longest waits."""
    most = None
    for of_group in zip(*(each.waits for each in timings if each.grouped is not None), strict=True):
        known = [wait for wait in of_group if wait != MISSING]
        if known:
            wait = median(known)
            most = wait if most is None or wait > most else most
    return None if most is None else round(most)


class Waits(Mapping[int, int]):
    """The median wait of each device. It is derived on first access, as there may be thousands of devices."""

    __slots__ = ("_found", "_timings")

    def __init__(self, timings: Sequence[Timing]) -> None:
        self._timings = timings
        self._found: dict[int, int] | None = None

    def _all(self) -> dict[int, int]:
        if self._found is None:
            self._found = waits_of(self._timings)
        return self._found

    def __getitem__(self, device_id: int) -> int:
        return self._all()[device_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def waits_of(timings: Sequence[Timing]) -> dict[int, int]:
    """Return the median wait of each device, over the launches that keep waits by device."""
    grouped = timings[-1].grouped if timings else None
    if grouped is None:
        return {}
    columns = [each.by_device for each in timings if each.by_device is not None]
    found = {}
    for device_id, waits in zip(
        chain.from_iterable(grouped.device_ids), zip(*columns, strict=True), strict=True
    ):
        known = sorted(wait for wait in waits if wait != MISSING)
        if known:
            found[device_id] = known[(len(known) - 1) // 2]
    return found


def straggler(cluster: ClusterState, grouped: Grouped | None, found: Measured) -> Straggler | None:
    """Return the latest of the named units. For a process, its device is the one that waits least."""
    if not found.late or grouped is None:
        return None
    late = max(found.late, key=lambda each: each.verdict.late_us)
    host = cluster.hosts.get(late.unit.agent)
    device_id = late.unit.device_id
    if device_id is None:
        own = {device.id for device in host.hello.devices} if host and host.hello else set()
        team = grouped.teams[late.team] if late.team < len(grouped.teams) else None
        members = [
            grouped.device_ids[number][place]
            for number, row in (team.rows if team else ())
            for place, unit in enumerate(row)
            if grouped.device_ids[number][place] in own and unit >= 0
        ]
        if not members:
            return None
        device_id = min(members, key=lambda each: found.waits.get(each, MISSING))
    share, late_us = late.verdict.share, late.verdict.late_us
    return Straggler(late.unit.agent, host.process_index if host else None, device_id, share, late_us)
