"""The durations of launches of each program on a host, from windows of the profiler."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.host import run_of
from jaxtop.model.liveness import TIMES_IN_WINDOW, is_current
from jaxtop.model.past_values import ProgramLaunches
from jaxtop.model.steps.views import idle_share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import ProgramKey

# A window with this many launches may lack some, which would look like gaps.
MAX_LAUNCHES = 256


class MeasuredLaunches(NamedTuple):
    """What windows show of the programs of a host.

    `overlap` is the time in which any program runs, as a share of the sum over the launches.
    """

    of_program: Mapping[tuple[str, str | None], ProgramLaunches]
    of_name: Mapping[str, ProgramLaunches]
    overlap: float
    idle: float | None
    at_ms: int

    def launches_of(self, key: tuple[str, str | None]) -> ProgramLaunches | None:
        """Return the launches of a program, or else those of all programs of its name."""
        return self.of_program.get(key) or self.of_name.get(key[0])


def measured_in(
    cluster: ClusterState, host: Host, waited: Mapping[ProgramKey, Mapping[int, int]]
) -> MeasuredLaunches:
    """Return what windows show of a host; `waited` is how long each device waits in a launch."""
    has_idle = is_current(host, host.window.at_ms, TIMES_IN_WINDOW)
    return cluster.derived.of(
        "launch times",
        host.agent,
        cluster.hosts,
        (host.launches_in_windows, host.window, host.hello, waited, has_idle),
        lambda: _measured(host, waited, has_idle=has_idle),
    )


def _measured(
    host: Host, waited: Mapping[ProgramKey, Mapping[int, int]], *, has_idle: bool
) -> MeasuredLaunches:
    run, devices = run_of(host), [each.id for each in host.devices]
    of_program: dict[tuple[str, str | None], ProgramLaunches] = {}
    of_name: dict[str, ProgramLaunches] = {}
    for name, launched in host.launches_in_windows.items():
        for fingerprint, timed in launched.times.items():
            if timed.number <= 0:
                continue
            exposed = None if timed.exposed_us is None else min(timed.exposed_us, timed.duration_us)
            waits = waited.get((run, name, fingerprint), {})
            own = [waits[each] for each in devices if each in waits]
            waiting = min(fmean(own) * timed.number if own else 0.0, exposed or 0.0)
            found = timed._replace(exposed_us=exposed, waiting_us=waiting)
            of_program[name, fingerprint] = found
            of_name[name] = of_name.get(name, ProgramLaunches()).plus(found)
    spans = [(each.start_us, each.start_us + each.duration_us) for each in host.window.launches]
    total = sum(end - start for start, end in spans)
    return MeasuredLaunches(
        of_program,
        of_name,
        _covered(spans) / total if total else 1.0,
        idle_share(host.window.launches) if len(spans) < MAX_LAUNCHES and has_idle else None,
        _timed_ms(host),
    )


def _covered(spans: list[tuple[int, int]]) -> int:
    covered = until = 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, until))
        until = max(until, end)
    return covered


def has_current_windows(host: Host) -> bool:
    """Return whether a window has shown launches of the present steps: else its parts rest on others."""
    return is_current(host, _timed_ms(host), TIMES_IN_WINDOW)


def _timed_ms(host: Host) -> int:
    """Return when the last window began whose launches were timed."""
    return max((each.at_ms for each in host.launches_in_windows.values() if each.times), default=0)
