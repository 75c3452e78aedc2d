"""The waits in a collective, from its timings: the longest, and those of each device."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

from jaxtop.model.collectives.verdict import MISSING

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, Sequence

    from jaxtop.model.windows import Timing


# A group that no launch of this many windows timed has no current waits.
CURRENT_WINDOWS = 4


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
    recent = timings[-1].window - CURRENT_WINDOWS
    start = 0
    for ids in grouped.device_ids if grouped else ():
        rows = [(each.window, (each.by_device or ())[start : start + len(ids)]) for each in kept]
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

    def items(self) -> ItemsView[int, int]:
        return self._all().items()  # much faster than one look-up per device


def waits_of(timings: Sequence[Timing]) -> dict[int, int]:
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
