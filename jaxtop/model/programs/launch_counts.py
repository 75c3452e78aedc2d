"""The launches of programs that windows showed: how often each was launched lately, and how long it took."""

from __future__ import annotations

from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING

from jaxtop.model.liveness import OF_STEPS, is_current
from jaxtop.model.past_values import FunctionLaunches, ProgramLaunches
from jaxtop.model.programs.launch_durations import with_launches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop import wire
    from jaxtop.model.host import Host

# The number of program names for which launches in windows are kept.
MAX_NAMES = 256
# The number of programs of one name for which durations of launches are kept.
MAX_VARIANTS = 32
_NONE = FunctionLaunches(0, {})


def launched_with(host: Host, window: wire.Window) -> Mapping[str, FunctionLaunches]:
    """Return the launches of a process in its windows, this one included."""
    found = dict(host.launches_in_windows)
    for name, launches in _launches_by_program(window).items():
        before = found.pop(name, _NONE)  # the latest ones come last
        counts = {each: len(of_program) for each, of_program in launches.items()}
        counted = {
            each: counts.get(each, 0) + before.counts.get(each, 0) // 2 for each in (*before.counts, *counts)
        }
        found[name] = FunctionLaunches(
            window.at_ms,
            {each: count for each, count in counted.items() if count},
            _averaged(before.times if is_current(host, before.at_ms, OF_STEPS) else {}, launches),
            counts,
            window.slot,
            _lasted(before.lasted, launches),
        )
    return MappingProxyType(dict(list(found.items())[-MAX_NAMES:]))


def _launches_by_program(window: wire.Window) -> dict[str, dict[str | None, list[wire.Launch]]]:
    """Return the launches of a window by the name of their program, and then by its fingerprint."""
    found: dict[str, dict[str | None, list[wire.Launch]]] = {}
    for launch in window.launches:
        name, fingerprint = window.programs[launch.program]
        found.setdefault(name, {}).setdefault(fingerprint, []).append(launch)
    return found


def _lasted(
    older: Mapping[str | None, Mapping[int, int]], now: Mapping[str | None, list[wire.Launch]]
) -> Mapping[str | None, Mapping[int, int]]:
    found = {each: lasted for each, lasted in older.items() if each not in now}
    for each, launches in now.items():
        found[each] = with_launches(older.get(each, {}), (launch.duration_us for launch in launches))
    return dict(list(found.items())[-MAX_VARIANTS:])


def _averaged(
    older: Mapping[str | None, ProgramLaunches], now: Mapping[str | None, list[wire.Launch]]
) -> Mapping[str | None, ProgramLaunches]:
    """Return the times of programs with those of a new window, which count twice as much as older ones."""
    found = {each: times for each, times in older.items() if each not in now}
    for each, launches in now.items():
        single = (ProgramLaunches(1, one.duration_us, one.exposed_us) for one in launches)
        before, times = older.get(each), reduce(ProgramLaunches.plus, single, ProgramLaunches())
        if before is not None and before.number > 0:
            found[each] = times.plus(before, times.number / before.number / 2)
        else:
            found[each] = times
    return dict(list(found.items())[-MAX_VARIANTS:])
