"""The wall time of a process by part, from its own figures: computing, communicating, waiting, no launches.

What the others of its run add, such as a late process that it waits for, is in `step_parts.py`.

The time in which programs run is how often each is launched, from counters, times how long a launch takes,
from windows of the profiler. What that leaves over is a gap of the host as far as something confirms it: idle
devices in windows, or samples of the main thread in the script. The rest is unknown.

After a change of the step's rhythm only rates and samples of the new rhythm count. The times of launches are
those of older windows until a new one comes: a step that waits longer does not have more to compute.
"""

from __future__ import annotations

from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.collectives.sums import program_waits
from jaxtop.model.hosts import host_views
from jaxtop.model.programs.rates import launch_rates_of, program_of
from jaxtop.model.shares import Parts
from jaxtop.model.steps.script import not_launching
from jaxtop.model.steps.views import past_of
from jaxtop.model.wall_time.launch_times import has_current_windows, measured_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState
    from jaxtop.model.wall_time.launch_times import MeasuredLaunches
    from jaxtop.model.windows import ProgramKey


# Durations of launches that take this share of the time together are no longer right.
MAX_BUSY = 1.15


class BusyShares(NamedTuple):
    """The shares of wall time that programs take by rates and durations: may be more than there is.

    `unsplit` is the share of programs whose exposed communication is unknown. `communication` has no waits.
    """

    compute: float = 0.0
    communication: float = 0.0
    waiting: float = 0.0
    unsplit: float = 0.0


class OwnParts(NamedTuple):
    """The parts of a process by its own figures, and the time in programs that they were made of."""

    parts: Parts
    busy: BusyShares


def own_parts(cluster: ClusterState, now: float) -> Mapping[str, OwnParts]:
    """Return where the time of each host goes, by agent; hosts of which too little is known are left out."""

    def derive() -> dict[str, OwnParts]:
        waited = program_waits(cluster, now)
        found = {
            view.host.agent: _parts_in(cluster, view.current, waited)
            for view in host_views(cluster, now)
            if not view.state.is_silent
        }
        return {agent: each for agent, each in found.items() if each is not None}

    return cluster.derived.get("own parts at a time", (cluster.changes, now), derive)


def with_lateness(own: OwnParts | None, gap: float, delayed: float, wait: float | None) -> Parts:
    """Return the parts of a process with its confirmed gap, and its wait for late processes if there are any.

    That wait replaces the one in windows, which are few and may be old. What is then left over is unknown.
    """
    parts, busy = own or (Parts(0.0, 0.0, 0.0, 0.0, 1.0), BusyShares())
    if wait is None and gap <= parts.host_gap:
        return parts._replace(delayed=min(delayed, parts.host_gap))
    gap = max(gap, parts.host_gap)
    if wait is None:
        fixed, waiting, programs = gap, busy.waiting, sum(busy)
    else:
        waiting, gap = wait, min(gap, 1 - wait)
        fixed, programs = gap + waiting, sum(busy) - busy.waiting
    scale = min(1.0, max(0.0, 1 - fixed) / programs) if programs else 1.0
    waiting *= scale if wait is None else 1.0
    compute, communication = busy.compute * scale, busy.communication * scale
    unknown = max(0.0, 1 - compute - communication - waiting - gap)
    return Parts(compute, communication, waiting, gap, unknown, parts.at, min(delayed, gap))


def mean_of(found: Iterable[Parts]) -> Parts | None:
    """Return the means of the parts of several hosts; None if there are none."""
    listed = list(found)
    if not listed:
        return None
    return Parts(
        fmean(each.compute for each in listed),
        fmean(each.communication for each in listed),
        fmean(each.waiting for each in listed),
        fmean(each.host_gap for each in listed),
        fmean(each.unknown for each in listed),
        min((each.at for each in listed if each.at is not None), default=None),
        fmean(each.delayed for each in listed),
    )


def _parts_in(
    cluster: ClusterState, host: Host, waited: Mapping[ProgramKey, Mapping[int, int]]
) -> OwnParts | None:
    measured = measured_in(cluster, host, waited)
    return cluster.derived.of(
        "parts", host.agent, cluster.hosts, (host, measured), lambda: _parts(host, measured)
    )


def _parts(host: Host, measured: MeasuredLaunches) -> OwnParts | None:
    """Return the parts of a host; None if the launches of its step are not measured, or its steps stopped."""
    rates = launch_rates_of(host)
    if not _is_running(host, rates.of_function):
        return None
    compute = exposed = waiting = unsplit = 0.0
    is_whole = True
    unsplit_rates = (((name, None), unsplit_rate.per_second) for name, unsplit_rate in rates.unsplit.items())
    for key, rate in chain(rates.of_program.items(), unsplit_rates):
        if not rate:
            continue
        launched = measured.launches_of(key)
        if launched is None:
            if _is_of_step(host, key[0], rate):
                return None
            is_whole = False
            continue
        share = rate / launched.number / 1e6  # of wall time, for each microsecond of the launches
        if launched.exposed_us is None:
            unsplit += share * launched.duration_us
        else:
            # Windows may say what cannot be: no part is longer than the whole, or less than nothing.
            exposed_us = min(launched.exposed_us, launched.duration_us)
            compute += share * (launched.duration_us - exposed_us)
            exposed += share * exposed_us
            waiting += share * max(0.0, min(launched.waiting_us, exposed_us))
    if not measured.of_program:
        return None
    busy = compute + exposed + unsplit
    if busy * measured.overlap > MAX_BUSY and not has_current_windows(host):
        return None  # steps became shorter since: their launches must have, too
    # Launches that overlap, and durations of steps that were slower than those now, add up to more than there
    # is.
    scale = min(measured.overlap, (1 - _witnessed(host, measured, busy)) / busy) if busy else 1.0
    left = max(0.0, 1 - busy * scale)
    gap = min(left, max(measured.idle or 0.0 if is_whole else 0.0, not_launching(host) or 0.0))
    age = max(0, host.pulse.at_ms - measured.at_ms) / 1000
    its_parts = Parts(
        compute * scale,
        (exposed - waiting) * scale,
        waiting * scale,
        gap,
        left - gap + unsplit * scale,
        None if host.pulse_at is None else host.pulse_at - age,
    )
    once = measured.overlap
    taken = BusyShares(compute * once, (exposed - waiting) * once, waiting * once, unsplit * once)
    return OwnParts(its_parts, taken)


def _witnessed(host: Host, measured: MeasuredLaunches, busy: float) -> float:
    """Return the share of wall time in which devices are idle, though launches seem to fill it.

    Two witnesses must agree: the devices in the last window, and the main thread, which is in the script. A
    window alone may contain a rare pause, and a script may run while its devices compute. If launches would
    take longer than there is time, the window is enough: their durations are no longer right.
    """
    idle, sampled = measured.idle or 0.0, not_launching(host)
    if busy * measured.overlap > 1:
        return idle
    return min(idle, sampled or 0.0)


def _is_running(host: Host, of_function: Mapping[str, float]) -> bool:
    """Return whether steps are made, and the rates of all functions of a step are measured.

    The first count of a function says only how often it was launched at most.
    """
    if not any(of_function.values()) or past_of(host) is not None:
        return False
    passed_ms = host.pulse.at_ms - host.past_launches[0].at_ms
    new = ((program_of(each), count) for each, count in host.launches.items())
    return not any(
        name not in of_function and _is_of_step(host, name, count * 1000 / passed_ms) for name, count in new
    )


def _is_of_step(host: Host, name: str, rate: float) -> bool:
    """Return whether a program may belong to the step, and not to rarer work such as an evaluation."""
    rhythm = host.pulse.rhythm
    if rhythm is None:
        return True
    if rhythm.functions:
        return name in map(program_of, rhythm.functions)
    return rhythm.milli_per_s is None or rate * 2000 >= rhythm.milli_per_s
