"""The memory of a process that grows until its machine has none left."""

from __future__ import annotations

from heapq import nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.units import in_bytes, in_minutes
from jaxtop.model.figures import FIGURES
from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.findings.trends import (
    BLOCKS,
    FEWEST_POINTS,
    makes_steps,
    trend,
)
from jaxtop.model.naming.sentences import host_names
from jaxtop.model.series import oldest, thinned
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.findings.trends import Trend
    from jaxtop.model.liveness import HostView

# The processes whose whole history is examined: those that grew most.
MOST_EXAMINED = 16
# A trend may be this short if the process gained this much, and this share. Before `LASTS` it has to gain
# more: a run that has just started fills caches and loads libraries.
SHORTEST, GAINED, GAINED_SHARE, GAINED_EARLY = 20.0, 32 << 20, 0.02, 0.1
# Growth counts once it was observed for this many seconds; a note on fast growth may come earlier.
LASTS = 90.0
# Sooner if the machine is full in less than this many times as long as it was observed: `LASTS` is then too
# late. A process that reads its data grows, too: fast growth must have taken a share of the machine.
FAST_TIMES, FAST_SHARE, FASTEST = 4, 0.1, 12.0
# The growth of a process that counts, as a share of its size a minute, and in bytes a minute.
HOST_GROWTH_SHARE = 0.005
HOST_GROWTH = Number("least_bytes_per_minute", 32 << 20, "growth below which it is not reported")
# Unless the machine's memory in use grows by this share of it, it is a note: pages of mapped files count for
# the process only.
MACHINE_SHARE = 0.5
HOST_LATER = Number("warning_minutes", 4 * 60.0, "a warning if its machine is full in less than this")
SOON = Number("critical_minutes", 10.0, "critical if its machine is full in less than this")
# Times until full beyond this one, in minutes, are not shown.
MONTH = 30 * 24 * 60.0
# From this share of the machine's memory on, its growth can be critical.
HOST_FULL = 0.75

_RSS, _MACHINE = FIGURES["rss_bytes"], FIGURES["memory_used_bytes"]


class _Growing(NamedTuple):
    """A process that grows, the minutes until its machine is full, and whether that has less free memory."""

    minutes: float | None
    rising: Trend
    view: HostView
    is_on_machine: bool


def _host_growth(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for the processes whose memory grows; its subject is the first that is full."""
    views = [view for view in facts.reporting if view.current.pulse.host.rss_bytes]
    if not views:
        raise Unmeasured("no process reports its size")
    if not any(map(makes_steps, views)):
        raise Unmeasured("no step was found yet, and memory grows while a run starts")
    if not any(_is_long(facts, view) for view in views):
        raise Unmeasured(f"the history is shorter than {FASTEST:.0f} s")
    rough = []
    for view in views:
        gained = _rough_growth(facts, view)
        if gained > 0 and makes_steps(view):
            rough.append((-gained, view))
    growing = []
    for _, view in nsmallest(MOST_EXAMINED, rough, key=itemgetter(0)):
        since = _compiled_at(view)
        rising = trend(thinned(facts.cluster, view.host.agent, _RSS, 5 * BLOCKS, since), FASTEST)
        if rising is None or not _is_growth(facts, rising) or _is_of_arrays(facts, view, rising):
            continue
        machine = thinned(facts.cluster, view.host.agent, _MACHINE, 5 * BLOCKS, since)
        least = MACHINE_SHARE * rising.per_minute * rising.seconds / 60
        minutes = _until_host_is_full(view, rising, trend(machine))
        is_on_machine = (_gained(machine) or 0.0) >= least
        growth = _Growing(minutes, rising, view, is_on_machine)
        if rising.seconds >= SHORTEST or _is_fast(growth):
            growing.append(growth)
    if growing:
        yield _of_hosts(facts, growing)


def _is_long(facts: RunFacts, view: HostView) -> bool:
    past = facts.cluster.figures.get(view.host.agent)
    return past is not None and len(past) >= FEWEST_POINTS and past[-1][0] - past[0][0] >= FASTEST


def _rough_growth(facts: RunFacts, view: HostView) -> float:
    """Return how much larger a process is than at the start of its history."""
    before = oldest(facts.cluster, view.host.agent, _RSS)
    return 0.0 if before is None else (view.current.pulse.host.rss_bytes or 0) - before


def _is_fast(growth: _Growing) -> bool:
    """Return whether a machine is full so soon that nobody could react if the growth had to last longer."""
    minutes, rising, view, is_on_machine = growth
    total = view.current.pulse.host.memory_total_bytes
    if minutes is None or total is None or not is_on_machine:
        return False
    gained = rising.per_minute * rising.seconds / 60
    return minutes * 60 < FAST_TIMES * rising.seconds and gained >= FAST_SHARE * total


def _gained(points: Sequence[tuple[float, float | None]]) -> float | None:
    """Return by how much a figure is larger at the end than at the start; None if it is unknown."""
    known = [value for _, value in points if value is not None]
    few = max(1, len(known) // BLOCKS)
    return min(known[-few:]) - min(known[:few]) if known else None


def _is_growth(facts: RunFacts, rising: Trend) -> bool:
    least = facts.number(HOST_GROWTH)
    gained = rising.per_minute * rising.seconds / 60
    share = GAINED_SHARE if rising.seconds >= LASTS else GAINED_EARLY
    return rising.per_minute >= max(least, HOST_GROWTH_SHARE * rising.top) and gained >= max(
        GAINED, share * rising.top
    )


def _is_of_arrays(facts: RunFacts, view: HostView, rising: Trend) -> bool:
    """Return whether arrays make up half of the growth: those of CPU devices are in the process's memory."""
    if not view.host.is_on_cpu:
        return False
    per_device = sum(each.bytes_per_minute for each in facts.growers)
    return per_device * len(view.host.devices) >= rising.per_minute / 2


def _compiled_at(view: HostView) -> float:
    """Return when a program was last compiled: compilers leave memory behind, which is no growth."""
    pulse, now = view.current.pulse, view.current.pulse_at or 0.0
    if pulse.compiling:
        return now
    ago_ms = pulse.at_ms - max(view.host.programs.seen_ms, default=0)  # by the clock of the host
    return now - ago_ms / 1000


def _until_host_is_full(view: HostView, rising: Trend, machine: Trend | None) -> float | None:
    """Return in how many minutes a machine or container has no memory left; None if that is unknown."""
    sample = view.current.pulse.host
    if sample.memory_total_bytes is None or sample.memory_used_bytes is None:
        return None
    rate = max(rising.per_minute, machine.per_minute if machine else 0.0)  # other processes may grow, too
    return max(0, sample.memory_total_bytes - sample.memory_used_bytes) / rate


def _of_hosts(facts: RunFacts, growing: list[_Growing]) -> Finding:
    worst = min(growing, key=lambda each: (not each.is_on_machine, each.minutes is None, each.minutes or 0.0))
    minutes, rising, view, is_on_machine = worst
    host, sample = view.host, view.current.pulse.host
    until = "" if minutes is None or minutes > MONTH else f"; its machine is full in {in_minutes(minutes)}"
    who = host_names([each.view.host for each in growing])
    is_full = (sample.memory_used_bytes or 0) >= HOST_FULL * (sample.memory_total_bytes or 1)
    severity = Severity.INFO
    is_fast = _is_fast(worst)
    if minutes is not None and is_on_machine and (rising.seconds >= LASTS or is_fast):
        if minutes < facts.number(SOON) and is_full:
            severity = Severity.CRITICAL
        elif minutes < facts.number(HOST_LATER):
            severity = Severity.WARNING
    return Finding(
        severity,
        min(0.9, 0.4 + rising.seconds / 240),
        f"{who}: the process grows by {in_bytes(rising.per_minute)} a minute "
        f"(now {in_bytes(rising.top)}){until}",
        Subject.of(host),
        cost=FindingCost(minutes_until_full=None if minutes is None else round(minutes, 1)),
        evidence=(
            Evidence("growth a minute", rising.per_minute, "bytes", "kernel", facts.at),
            Evidence("resident memory", sample.rss_bytes, "bytes", "kernel", view.current.pulse_at),
            Evidence(
                "machine's memory in use", sample.memory_used_bytes, "bytes", "kernel", view.current.pulse_at
            ),
            Evidence("machine's memory", sample.memory_total_bytes, "bytes", "kernel", view.current.pulse_at),
            Evidence("observed for", rising.seconds, "seconds", "kernel", facts.at),
        ),
        proof=Proof("hosts", row=host.agent, column="rss_bytes"),
        since=facts.at - rising.seconds if is_fast else 0.0,  # it holds since then, and is reported at once
    )


RULES = (
    Rule(
        name="host_memory_growth",
        title="Host memory grows",
        threshold="a process that makes steps and compiles nothing grows steadily, by 32 MiB and 0.5 % a "
        "minute, and gained 10 % of its size, or 2 % after 90 s; a warning if after 90 s the memory in use "
        "of its machine grows by half of that, and is full within 4 hours; critical if that memory is also "
        "75 % full, and full within 10 minutes. A process that took a tenth of its machine's memory is "
        "reported, with these severities, after 12 s if the rest lasts less than four times as long",
        rationale="The kernel ends the process once the memory of the machine or container is used up.",
        source="the resident memory of the process and the machine's memory, over the last two minutes",
        advice="Look for lists and caches that grow in the script or its data loader: tracemalloc compares "
        "two moments by line.",
        check=_host_growth,
        holds_for=6.0,
        stays_for=20.0,
        numbers=(HOST_GROWTH, HOST_LATER, SOON),
    ),
)
