"""The gaps of a host, in which it launches nothing, and what its main thread does meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.liveness import TIMES_IN_WINDOW, is_current
from jaxtop.model.past_values import ProgramLaunches
from jaxtop.model.programs.rates import launch_rates_of, program_of
from jaxtop.model.steps.script import is_sampled, not_launching
from jaxtop.model.steps.views import pace_of
from jaxtop.model.tuning import Number
from jaxtop.wire import COMPILE, FEWEST_ACTIVITY_SAMPLES, LAUNCH, SCRIPT, WAIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.model.host import Host
    from jaxtop.model.shares import Parts
    from jaxtop.wire import ActiveLine, Rhythm

# A gap is part of each step if the median step, times the steps a second, fills this share of the time.
STEPS_TIME_SHARE = 0.7
# The time that these steps leave over is then at most this share of the gap, or `MAX_LEFT_SHARE` of the time.
MAX_LEFT_OF_GAP = 0.8
MAX_LEFT_SHARE = 0.1
# A gap counts as a whole if samples of the main thread confirm this part of it: samples are few.
CONFIRMED_SHARE = 0.8
# A script makes a gap in each step from this share of a step on. A host is late by its script if its gap and
# its extra time in the script, compared with the others, each take this share.
LATE_SCRIPT_SHARE = 0.15
# A share must be at least this many standard errors of its samples, of which there are few.
ERRORS = 3
# While more than this share of the samples compiles, the run is starting.
MAX_COMPILING = 0.1
PAUSE_SHARE = Number("share", 0.1, "reported from this share of the time on", "pauses")
# A finding about pauses names a line that has this share of the samples.
LINE_SHARE = 0.05
# Pauses repeat if there are this many within a minute. A single pause is rare.
REPEATED_PAUSES = 3
# Two pauses within this time repeat, too.
NEXT_PAUSE_MS = 20_000
# The agent counts a gap as a pause if it is this many seconds longer than a step.
SHORTEST_S = 0.25
# Steps with at least this many short launches have many: their time goes to Python.
MANY_LAUNCHES = Number("launches", 50, "reported from this many launches a step on")
# A process that makes this many launches a second makes many, too.
MANY_LAUNCHES_A_SECOND = 1000
# Launches below this duration are short.
SHORT_LAUNCH_MS = 0.5
# The share of the samples in which a main thread that makes many launches is in them.
LAUNCHING_SHARE = 0.3
# The time by which steps have become longer counts if it is this close to what windows leave over: all steps
# are timed, but only few launches.
STEP_EXCESS_RANGE = (0.5, 1.5)


@dataclass(frozen=True, slots=True)
class Gap:
    """The gap of a host as a share of wall time, its milliseconds per step, and its main thread's samples.

    `uncovered` is the share of wall time in which no program is known to run, None where no window shows how
    long the programs take; the gap is the part of it that something confirms. `script`, `launch`, `wait` and
    `compiling` are shares of the samples. The gap and `script` do not contain `delayed`, in which the main
    thread waited for a core: the machine caused that. `in_steps` is the share of wall time for which the
    script launches nothing in each step at least, were all of its pauses in the gap.
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
    core_share: float = 0.0
    in_steps: float = 0.0

    @property
    def is_steadily_in_script(self) -> bool:
        """Whether the script makes a gap in each step, of which pauses explain only a part."""
        return self.in_steps >= max(LATE_SCRIPT_SHARE, ERRORS * standard_error(self, 0.0))

    @property
    def most_script(self) -> float:
        """The share of the samples in the script, with all waits for a core in them."""
        return self.host.activity.samples[SCRIPT] / sum(self.host.activity.samples)

    @property
    def ms(self) -> float:
        return self.share * self.step_ms

    @property
    def whole(self) -> float:
        """The share of wall time in which nothing is launched, with the waits for a core."""
        return self.share + self.core_share

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

    Without windows of the profiler, the utilisation of its devices shows how much of the time they are idle.
    """
    activity, rhythm = host.activity, host.pulse.rhythm
    total = sum(activity.samples)
    if rhythm is None or rhythm.p50_us is None or not is_sampled(host, FEWEST_ACTIVITY_SAMPLES):
        return None
    pace = pace_of(host)
    if not pace:
        return None
    uncovered = _uncovered(host, parts, pace)
    share = 0.0 if uncovered is None else confirmed(uncovered, not_launching(host) or 0.0)
    if parts is not None:
        share = max(share, parts.host_gap)
    shares = [each / total for each in activity.samples]
    delayed = min(1.0, (activity.delayed_ms or 0) / max(1, activity.span_ms))
    in_steps = rhythm.p50_us * pace / 1e6
    script = max(0.0, shares[SCRIPT] - delayed)
    gap = Gap(
        host,
        max(0.0, share - delayed),
        uncovered,
        1000 / pace,
        rhythm.p50_us / 1e6,
        in_steps >= STEPS_TIME_SHARE and 1 - in_steps <= max(MAX_LEFT_SHARE, MAX_LEFT_OF_GAP * share),
        script,
        shares[LAUNCH],
        shares[WAIT],
        shares[COMPILE],
        delayed,
        min(share, delayed),
        max(0.0, min(script, share - delayed) - _paused(rhythm, pace, in_steps)),
    )
    return replace(gap, is_in_each_step=True) if gap.is_steadily_in_script else gap


def _paused(rhythm: Rhythm, pace: float, in_steps: float) -> float:
    """Return the share of wall time that pauses take at most; `in_steps` is that of the median step."""
    if not rhythm.pauses:
        return 0.0  # steps only waver
    beyond = max(0.0, 1 - in_steps)
    if rhythm.pauses == 1:
        return beyond  # what a single one costs is not known
    return min(beyond, rhythm.lost_us * pace / 1e6)


class Pause(NamedTuple):
    """The pauses of a host: their share of wall time, without waits for a core; how long and how rare."""

    share: float
    lasts_s: float
    every_steps: float


def pause_of(gap: Gap, least: float) -> Pause | None:
    """Return the repeated pauses of a host in its script; None if they are few, short, or a small share.

    Samples do not show what a script does in its pauses, if it does the same in each step.
    """
    line, rhythm = gap.line(SCRIPT), gap.host.pulse.rhythm
    if gap.uncovered is None or gap.compiling >= MAX_COMPILING or gap.is_steadily_in_script:
        return None
    if line is None or line[1] < LINE_SHARE or rhythm is None:
        return None
    each_ms = gap.p50_s * 1000 + rhythm.lost_us / 1000  # of a step, with its part of the pauses
    steps = rhythm.pause_steps or rhythm.pauses_ms / max(1, rhythm.pauses - 1) / each_ms
    lasts_s = steps * rhythm.lost_us / 1e6
    if lasts_s < SHORTEST_S:
        return None  # steps that differ much, and not the pauses, make the mean longer than the median
    is_repeated = rhythm.pauses >= REPEATED_PAUSES or (
        rhythm.pauses > 1 and rhythm.pauses_ms <= NEXT_PAUSE_MS
    )
    share = confirmed(rhythm.lost_us / 1000 / gap.step_ms, gap.script + gap.delayed) - gap.delayed
    return Pause(share, lasts_s, steps) if is_repeated and share >= least else None


def launches_of(gap: Gap, many: float = MANY_LAUNCHES.default) -> tuple[float, float] | None:
    """Return the launches a second and a step, if they are many and Python spends its time on them."""
    if gap.launch < max(LAUNCHING_SHARE, gap.wait):
        return None
    found = launch_rates_of(gap.host).of_function
    launches = sum(found.values())
    a_step = _launches_a_step(gap, found)
    if not launches or (launches < MANY_LAUNCHES_A_SECOND and a_step < many):
        return None
    # Without windows, a launch is at most as long as the main thread takes for it.
    busy = gap.launch if gap.uncovered is None else 1 - gap.uncovered
    return (launches, a_step) if busy * 1000 / launches <= SHORT_LAUNCH_MS else None


def _launches_a_step(gap: Gap, found: Mapping[str, float]) -> float:
    """Return all launches of a process for each step.

    The pace is measured over other seconds than the launches: where steps waver, the launches of the step's
    own functions show the steps of the same seconds. Not all functions of a step with
    many are known, which makes these steps too few.
    """
    rhythm, launches = gap.host.pulse.rhythm, sum(found.values())
    by_pace = launches * gap.step_ms / 1000
    own = sum(found.get(program_of(each), 0.0) for each in rhythm.functions) if rhythm else 0.0
    if rhythm is None or not own or not rhythm.launches_centi:
        return by_pace
    return min(by_pace, launches * rhythm.launches_centi / 100 / own)


def lost_to_launches(gap: Gap) -> float:
    """Return the share of the time that launches cost: the part that programs in windows do not explain."""
    return min(gap.launch, 1 - measured_busy(gap.host)) if gap.uncovered is None else gap.uncovered


def measured_busy(host: Host) -> float:
    """Return the share of wall time in which those programs run whose durations windows have shown."""
    found, busy = launch_rates_of(host).of_function, 0.0
    for name, launched in host.launches_in_windows.items():
        launches = reduce(ProgramLaunches.plus, launched.times.values(), ProgramLaunches())
        if launches.number:
            busy += found.get(name, 0.0) * launches.seconds
    return min(1.0, busy)


def standard_error(gap: Gap, share: float) -> float:
    """Return the standard error of a share of the samples of a host, if this is its true value."""
    share = min(max(share, 0.05), 0.95)
    return sqrt(share * (1 - share) / sum(gap.host.activity.samples))


def confirmed(share: float, samples: float) -> float:
    """Return the part of a share of the time that a share of samples confirms."""
    return share if samples >= CONFIRMED_SHARE * share else samples


def longer_than_before(host: Host, pace: float | None) -> float | None:
    """Return the part of a step by which it is longer than before its rhythm changed; None if it is not.

    Where steps became shorter, that says nothing about what they still lose.
    """
    rhythm = host.pulse.rhythm
    if not pace or rhythm is None or rhythm.before_us is None:
        return None
    longer = 1 - rhythm.before_us * pace / 1e6
    return longer if longer > 0 else None


def is_close(longer: float, left: float) -> bool:
    """Return whether the part by which steps have become longer may be what windows do not explain."""
    return STEP_EXCESS_RANGE[0] * left <= longer <= STEP_EXCESS_RANGE[1] * left


def not_hidden(host: Host, parts: Parts | None) -> float:
    """Return the share of the time that Python's own work costs at most: devices may compute meanwhile.

    It is the share in which devices do not compute, or by which steps have become longer: where devices are
    cores of the machine, that work slows them down, and no device is idle. Where the two are about the same,
    steps are the better measure: what devices do not compute contains earlier gaps.
    """
    pace = pace_of(host)
    left = _uncovered(host, parts, pace)
    return 1.0 if left is None else max(left, longer_than_before(host, pace) or 0.0)


def _uncovered(host: Host, parts: Parts | None, pace: float | None) -> float | None:
    """Return the share of the time in which no program is known to run; None if nothing measures it.

    After a change of the step's rhythm, until a new window comes, this is the time that a step takes longer.
    """
    busy, longer = host.pulse.devices.utilization_permille or (), longer_than_before(host, pace)
    if parts is not None:
        left = parts.host_gap + parts.unknown
        if longer is None:
            return left
        is_old = not is_current(host, host.window.at_ms, TIMES_IN_WINDOW)
        return longer if is_close(longer, left) or is_old else left
    known = [each for each in busy if each is not None]
    return max(0.0, 1 - sum(known) / len(known) / 1000) if known else longer
