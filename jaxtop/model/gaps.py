"""The gaps of a host, in which it launches nothing, and what its main thread does meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.parts import not_launching
from jaxtop.model.rates import rates
from jaxtop.model.steps import pace_of
from jaxtop.wire import COMPILE, LAUNCH, SCRIPT, WAIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model.host import Host
    from jaxtop.model.parts import Parts
    from jaxtop.model.state import Sample
    from jaxtop.wire import ActiveLine

# Samples of fewer than five seconds, or of an earlier time, say little of now.
FEWEST_SAMPLES, OLDEST_MS = 25, 15_000
# If the median step, times the steps a second, fills this share of the time, a gap is part of each step.
IN_EACH_STEP = 0.7
# Pauses of the last minute count, if they are at least this long: pulses come once a second.
PAUSES_S, SHORTEST_PAUSE_S = 60.0, 1.2


@dataclass(frozen=True, slots=True)
class Gap:
    """The gap of a host as a share of wall time, its milliseconds per step, and its main thread's samples.

    `uncovered` is the share of wall time in which no program is known to run, None where no window shows how
    long the programs take; the gap is the part of it that something confirms. `script`, `launch`, `wait` and
    `compiling` are shares of the samples. The gap and `script` do not contain `delayed`, in which the main
    thread waited for a core: the machine caused that.
    """

    host: Host
    share: float
    uncovered: float | None
    step_ms: float
    p50_s: float
    is_in_each_step: bool
    script: float
    launch: float
    wait: float
    compiling: float
    delayed: float

    @property
    def ms(self) -> float:
        return self.share * self.step_ms

    def line(self, activity: int) -> tuple[ActiveLine, float] | None:
        """Return the line with most samples of an activity, and its share of all samples."""
        found = self.host.activity
        lines = [each for each in found.lines if each.activity == activity]
        if not lines:
            return None
        top = max(lines, key=lambda each: each.samples)
        return top, top.samples / sum(found.samples)


def gap_of(host: Host, parts: Parts | None) -> Gap | None:
    """Return the gap of a host; None if its steps or its main thread are not measured.

    Without windows of the profiler, the utilization of its devices shows how much of the time they are idle.
    """
    activity, rhythm = host.activity, host.pulse.rhythm
    total = sum(activity.samples)
    if rhythm is None or rhythm.p50_us is None or total < FEWEST_SAMPLES:
        return None
    pace = pace_of(host)
    if not pace or host.pulse.at_ms - activity.at_ms > OLDEST_MS:
        return None
    share, uncovered = 0.0, None
    if parts is not None:
        share, uncovered = parts.host_gap, parts.host_gap + parts.unknown
    elif busy := [each for each in host.pulse.devices.utilization_permille or () if each is not None]:
        uncovered = max(0.0, 1 - sum(busy) / len(busy) / 1000)
        share = min(uncovered, not_launching(activity) or 0.0)
    shares = [each / total for each in activity.samples]
    delayed = min(1.0, (activity.delayed_ms or 0) / max(1, activity.span_ms))
    return Gap(
        host,
        max(0.0, share - delayed),
        uncovered,
        1000 / pace,
        rhythm.p50_us / 1e6,
        rhythm.p50_us * pace / 1e6 >= IN_EACH_STEP,
        max(0.0, shares[SCRIPT] - delayed),
        shares[LAUNCH],
        shares[WAIT],
        shares[COMPILE],
        delayed,
    )


def measured_busy(host: Host) -> float:
    """Return the share of wall time in which those programs run whose durations windows have shown."""
    found, busy = rates(host).of_function, 0.0
    for name, launched in host.launched.items():
        launches = sum(each.launches for each in launched.times.values())
        if launches:
            took = sum(each.duration_us for each in launched.times.values()) / launches / 1e6
            busy += found.get(name, 0.0) * took
    return min(1.0, busy)


class Pauses(NamedTuple):
    """The stretches without a launch: their number, their share of the time, the longest in seconds."""

    number: int
    share: float
    longest: float


def pauses(history: Sequence[Sample], now: float, at_least: float) -> Pauses:
    """Return the pauses of at least so many seconds in the last minute of a host's history."""
    last = [each for each in history if each.at >= now - PAUSES_S]
    if len(last) < 2:
        return Pauses(0, 0.0, 0.0)
    found = []
    since = before = last[0]
    for sample in last[1:]:
        if sample.launches != before.launches:
            # A pause began and ended within an interval of the pulses: half of each counts.
            length = sample.at - since.at
            if before is not since and length >= max(SHORTEST_PAUSE_S, at_least):
                found.append(length)
            since = sample
        before = sample
    return Pauses(len(found), sum(found) / (last[-1].at - last[0].at), max(found, default=0.0))
