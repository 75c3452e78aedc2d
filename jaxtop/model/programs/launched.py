"""The launches of programs that windows showed: how often each was launched lately, and how long it took."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from jaxtop.model.earlier import FunctionLaunches, ProgramLaunches
from jaxtop.model.liveness import OF_STEPS, is_current
from jaxtop.model.programs.lasting import with_launches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop import wire
    from jaxtop.model.host import Host

# The number of program names for which launches in windows are kept.
MOST_NAMES = 256
# The number of programs of one name for which durations of launches are kept.
MOST_VARIANTS = 32


def launched_with(host: Host, window: wire.Window) -> Mapping[str, FunctionLaunches]:
    """Return the launches of a process in its windows, this one included."""
    found = dict(host.launches_in_windows)
    times, durations = _times(window), _durations(window)
    for name, counts in window.launched().items():
        before = found.pop(name, None)  # the latest ones come last
        older = before.counts if before is not None else {}
        counted = {each: counts.get(each, 0) + older.get(each, 0) // 2 for each in (*older, *counts)}
        found[name] = FunctionLaunches(
            window.at_ms,
            {each: count for each, count in counted.items() if count},
            _averaged(
                before.times if before is not None and is_current(host, before.at_ms, OF_STEPS) else {},
                times[name],
            ),
            counts,
            window.slot,
            _lasted(before.lasted if before is not None else {}, durations[name]),
        )
    return MappingProxyType(dict(list(found.items())[-MOST_NAMES:]))


def _times(window: wire.Window) -> dict[str, dict[str | None, ProgramLaunches]]:
    found: dict[str, dict[str | None, ProgramLaunches]] = {}
    for launch in window.launches:
        name, fingerprint = window.programs[launch.program]
        of_name = found.setdefault(name, {})
        one = ProgramLaunches(1, launch.duration_us, launch.exposed_us)
        of_name[fingerprint] = of_name.get(fingerprint, ProgramLaunches()).plus(one)
    return found


def _durations(window: wire.Window) -> dict[str, dict[str | None, list[int]]]:
    found: dict[str, dict[str | None, list[int]]] = {}
    for launch in window.launches:
        name, fingerprint = window.programs[launch.program]
        found.setdefault(name, {}).setdefault(fingerprint, []).append(launch.duration_us)
    return found


def _lasted(
    older: Mapping[str | None, Mapping[int, int]], now: Mapping[str | None, list[int]]
) -> Mapping[str | None, Mapping[int, int]]:
    found = {each: lasted for each, lasted in older.items() if each not in now}
    found.update({each: with_launches(older.get(each, {}), durations) for each, durations in now.items()})
    return dict(list(found.items())[-MOST_VARIANTS:])


def _averaged(
    older: Mapping[str | None, ProgramLaunches], now: Mapping[str | None, ProgramLaunches]
) -> Mapping[str | None, ProgramLaunches]:
    """Return the times of programs with those of a new window, which count twice as much as older ones."""
    found = {each: times for each, times in older.items() if each not in now}
    for each, times in now.items():
        before = older.get(each)
        if before is not None and before.number > 0:
            found[each] = times.plus(before, times.number / before.number / 2)
        else:
            found[each] = times
    return dict(list(found.items())[-MOST_VARIANTS:])
