"""The launches of programs that windows showed: how often each was launched lately, and how long it took."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from jaxtop.model.host import Launched, LaunchTimes, changed_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop import wire
    from jaxtop.model.host import Host

# The number of program names for which launches in windows are kept.
MOST_NAMES = 256
# The number of programs of one name for which durations of launches are kept.
MOST_VARIANTS = 32


def launched_with(host: Host, window: wire.Window) -> Mapping[str, Launched]:
    """Return the launches of a process in its windows, this one included."""
    found = dict(host.launched)
    times = _times(window)
    for name, counts in window.launched().items():
        before = found.pop(name, None)  # the latest ones come last
        older = before.counts if before is not None else {}
        counted = {each: counts.get(each, 0) + older.get(each, 0) // 2 for each in (*older, *counts)}
        found[name] = Launched(
            window.at_ms,
            {each: count for each, count in counted.items() if count},
            _averaged(
                before.times if before is not None and before.at_ms >= changed_ms(host.pulse) else {},
                times[name],
            ),
            counts,
            window.slot,
        )
    return MappingProxyType(dict(list(found.items())[-MOST_NAMES:]))


def _times(window: wire.Window) -> dict[str, dict[str | None, LaunchTimes]]:
    found: dict[str, dict[str | None, LaunchTimes]] = {}
    for launch in window.launches:
        name, fingerprint = window.programs[launch.program]
        of_name = found.setdefault(name, {})
        launches, duration, exposed = of_name.get(fingerprint, LaunchTimes(0, 0, 0))
        of_name[fingerprint] = LaunchTimes(
            launches + 1,
            duration + launch.duration_us,
            None if exposed is None or launch.exposed_us is None else exposed + launch.exposed_us,
        )
    return found


def _averaged(
    older: Mapping[str | None, LaunchTimes], now: Mapping[str | None, LaunchTimes]
) -> Mapping[str | None, LaunchTimes]:
    """Return the times of programs with those of a new window, which count twice as much as older ones."""
    found = {each: times for each, times in older.items() if each not in now}
    for each, times in now.items():
        before = older.get(each)
        found[each] = times if before is None or before.launches <= 0 else _weighted(before, times)
    return dict(list(found.items())[-MOST_VARIANTS:])


def _weighted(before: LaunchTimes, now: LaunchTimes) -> LaunchTimes:
    weight = now.launches / before.launches / 2
    exposed = None
    if before.exposed_us is not None and now.exposed_us is not None:
        exposed = now.exposed_us + before.exposed_us * weight
    launches, duration = (
        now.launches + before.launches * weight,
        now.duration_us + before.duration_us * weight,
    )
    return LaunchTimes(launches, duration, exposed)
