"""How long launches of each program take on a host, from windows of the profiler."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.host import changed_ms, run_of
from jaxtop.model.steps import idle_share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import ProgramKey

# A window with as many launches may lack some, which would look like gaps.
MOST_LAUNCHES = 256


class MeanLaunch(NamedTuple):
    """The mean times of a launch of one program on one host, in seconds; the exposed time may be unknown."""

    seconds: float
    exposed: float | None
    waiting: float
    weight: float


class Measured(NamedTuple):
    """What windows show of the programs of a host.

    `overlap` is the time in which any program runs, as a share of the sum over the launches.
    """

    launches: Mapping[tuple[str, str | None], MeanLaunch]
    by_name: Mapping[str, tuple[MeanLaunch, ...]]
    overlap: float
    idle: float | None
    at_ms: int

    def of(self, key: tuple[str, str | None]) -> MeanLaunch | None:
        """Return the times of a program, or else the mean of all programs of its name."""
        own = self.launches.get(key)
        if own is not None:
            return own
        alike = self.by_name.get(key[0])
        if not alike:
            return None
        total = sum(each.weight for each in alike)
        exposed = [each.exposed for each in alike if each.exposed is not None]
        return MeanLaunch(
            sum(each.seconds * each.weight for each in alike) / total,
            sum((each.exposed or 0.0) * each.weight for each in alike) / total
            if len(exposed) == len(alike)
            else None,
            sum(each.waiting * each.weight for each in alike) / total,
            total,
        )


def measured_in(
    cluster: ClusterState, host: Host, waited: Mapping[ProgramKey, Mapping[int, int]]
) -> Measured:
    """Return what windows show of a host; `waited` is how long each device waits in a launch."""
    is_current = host.window.at_ms >= changed_ms(host.pulse)
    return cluster.derived.of(
        "launch times",
        host.agent,
        cluster.hosts,
        (host.launched, host.window, host.hello, waited, is_current),
        lambda: _measured(host, waited, is_current=is_current),
    )


def _measured(host: Host, waited: Mapping[ProgramKey, Mapping[int, int]], *, is_current: bool) -> Measured:
    run, devices = run_of(host), [each.id for each in host.devices]
    launches: dict[tuple[str, str | None], MeanLaunch] = {}
    by_name: dict[str, list[MeanLaunch]] = {}
    for name, launched in host.launched.items():
        for fingerprint, (count, duration, exposed) in launched.times.items():
            if count <= 0:
                continue
            waits = waited.get((run, name, fingerprint), {})
            own = [waits[each] for each in devices if each in waits]
            exposed_s = None if exposed is None else min(exposed, duration) / count / 1e6
            waiting = min(fmean(own) / 1e6 if own else 0.0, exposed_s or 0.0)
            found = MeanLaunch(duration / count / 1e6, exposed_s, waiting, count)
            launches[name, fingerprint] = found
            by_name.setdefault(name, []).append(found)
    spans = [(each.start_us, each.start_us + each.duration_us) for each in host.window.launches]
    total = sum(end - start for start, end in spans)
    return Measured(
        launches,
        {name: tuple(each) for name, each in by_name.items()},
        _covered(spans) / total if total else 1.0,
        idle_share(host.window.launches) if len(spans) < MOST_LAUNCHES and is_current else None,
        _timed_ms(host),
    )


def _covered(spans: list[tuple[int, int]]) -> int:
    covered = until = 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, until))
        until = max(until, end)
    return covered


def has_current_windows(host: Host) -> bool:
    """Return whether a window has shown launches since the rhythm of the steps last changed.

    Until then the parts of a host rest on launches of the earlier steps.
    """
    return _timed_ms(host) >= changed_ms(host.pulse)


def _timed_ms(host: Host) -> int:
    """Return when the last window began whose launches were timed."""
    return max((each.at_ms for each in host.launched.values() if each.times), default=0)
