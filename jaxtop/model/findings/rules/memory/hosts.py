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
    MIN_POINTS,
    makes_steps,
    trend,
)
from jaxtop.model.holders import (
    HOLDER_SHARE,
    Holder,
    gained,
    growths,
    held,
    holder_of,
    minutes_until_full,
    per_step,
    points,
)
from jaxtop.model.naming.sentences import host_names
from jaxtop.model.series import host_samples, oldest
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.findings.trends import Trend
    from jaxtop.model.holders import Past
    from jaxtop.model.liveness import HostView
    from jaxtop.wire import HostSample

# The processes whose whole history is examined: those that grew most.
MAX_EXAMINED = 16
MIB = 1 << 20
# The shortest trend of the memory of a process, in seconds.
MIN_TREND_S = 20.0
# The least growth of a process in a trend, in bytes.
MIN_GAIN_BYTES = 32 << 20
# The least growth of a process in a trend, as a share of its size.
MIN_GAIN_SHARE = 0.02
# The same before `LASTS`: a run that has just started fills caches and loads libraries.
MIN_EARLY_GAIN_SHARE = 0.1
# Growth counts once it was observed for this many seconds; a note on fast growth may come earlier.
LASTS = 90.0
# Growth is reported before `LASTS` if the machine is full in less than this many times the observed time.
FAST_TIMES = 4
# Such fast growth must have taken this share of the machine: a process that reads its data grows, too.
FAST_SHARE = 0.1
# The shortest trend of such fast growth, in seconds.
MIN_FAST_TREND_S = 12.0
# The growth of a process that counts, as a share of its size a minute, and in bytes a minute.
HOST_GROWTH_SHARE = 0.005
HOST_GROWTH = Number("least_bytes_per_minute", 32 << 20, "growth below which it is not reported")
# Unless the machine's memory in use grows by this share of it, it is a note: pages of mapped files count for
# the process only.
MACHINE_SHARE = 0.5
HOST_FULL_WARNING_MINUTES = Number(
    "warning_minutes", 4 * 60.0, "a warning if its machine is full in less than this"
)
HOST_FULL_CRITICAL_MINUTES = Number(
    "critical_minutes", 10.0, "critical if its machine is full in less than this"
)
# Times until full beyond this one, in minutes, are not shown.
MONTH = 30 * 24 * 60.0
# From this share of the machine's memory on, its growth can be critical.
HOST_FULL = 0.75
# The column that shows each holder.
_COLUMNS = {
    Holder.MALLOC_USED: "malloc_used_bytes",
    Holder.MALLOC_FREE: "malloc_free_bytes",
    Holder.OUTSIDE_MALLOC: "rss_anonymous_bytes",
    Holder.ANONYMOUS: "rss_anonymous_bytes",
    Holder.SHARED: "rss_shared_bytes",
    Holder.CHILDREN: "children_anonymous_bytes",
    Holder.FILES: "rss_file_bytes",
    Holder.UNKNOWN: "rss_bytes",
}


class _GrowingProcess(NamedTuple):
    """A process that grows, the minutes until its machine is full, and whether that has less free memory."""

    minutes: float | None
    rising: Trend
    view: HostView
    is_on_machine: bool
    holder: Holder


def _host_growth(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for the processes whose memory grows; its subject is the first that is full."""
    views = [view for view in facts.reporting if view.current.pulse.host.rss_bytes]
    if not views:
        raise Unmeasured("no process reports its size")
    if not any(map(makes_steps, views)):
        raise Unmeasured("no step was found yet, and memory grows while a run starts")
    if not any(_is_long(facts, view) for view in views):
        raise Unmeasured(f"the history is shorter than {MIN_FAST_TREND_S:.0f} s")
    rough = []
    for view in views:
        gain = _rough_growth(facts, view)
        if gain > 0 and makes_steps(view):
            rough.append((-gain, view))
    growing = []
    for _, view in nsmallest(MAX_EXAMINED, rough, key=itemgetter(0)):
        past = host_samples(facts.cluster, view.host.agent, 5 * BLOCKS, _compiled_at(view))
        found = _grown(facts, view, past)
        if found is None:
            continue
        rising, holder = found
        machine = points(past, lambda sample: sample.memory_used_bytes)
        least = MACHINE_SHARE * rising.per_minute * rising.seconds / 60
        is_file = holder is Holder.FILES
        minutes = None if is_file else _until_host_is_full(view, rising, trend(machine))
        is_on_machine = not is_file and (gained(machine) or 0.0) >= least
        growth = _GrowingProcess(minutes, rising, view, is_on_machine, holder)
        if rising.seconds >= MIN_TREND_S or _is_fast(growth):
            growing.append(growth)
    if growing:
        yield _growth_finding(facts, growing)


def _is_long(facts: RunFacts, view: HostView) -> bool:
    past = facts.cluster.past_figures.get(view.host.agent)
    return past is not None and len(past) >= MIN_POINTS and past[-1][0] - past[0][0] >= MIN_FAST_TREND_S


def _rough_growth(facts: RunFacts, view: HostView) -> float:
    """Return how much larger a process is than at the start of its history, or its child processes."""
    now = view.current.pulse.host
    before = [oldest(facts.cluster, view.host.agent, read) for read in (_resident, _of_children)]
    of_each = zip(before, (_resident(now), _of_children(now)), strict=True)
    return max(((later or 0) - earlier for earlier, later in of_each if earlier is not None), default=0.0)


def _resident(sample: HostSample) -> int | None:
    return sample.rss_bytes


def _of_children(sample: HostSample) -> int | None:
    return sample.children_anonymous_bytes


def _grown(facts: RunFacts, view: HostView, past: Past) -> tuple[Trend, Holder] | None:
    """Return how the memory of a process grows, and what holds most of that; None if it does not."""
    found: list[tuple[Trend, Holder]] = []
    now = view.current.pulse.host

    def rise(read: Callable[[HostSample], int | None], size: int | None) -> Trend | None:
        rising = trend(points(past, read), MIN_FAST_TREND_S)
        return rising if rising and _is_growth(facts, rising, size) else None

    own = rise(held, now.rss_bytes)
    if own and not _is_from_arrays(facts, view, own):
        found.append((own, holder_of(past)))
    children = rise(_of_children, now.children_rss_bytes)
    if children:
        found.append((children, Holder.CHILDREN))
    resident = rise(_resident, now.rss_bytes)
    if resident and not own and held(now) != now.rss_bytes:
        files = gained(points(past, lambda sample: sample.rss_file_bytes)) or 0.0
        if files >= HOLDER_SHARE * (gained(points(past, _resident)) or 0.0):
            found.append((resident, Holder.FILES))
    return max(found, key=lambda each: (each[1] is not Holder.FILES, each[0].per_minute), default=None)


def _is_fast(growth: _GrowingProcess) -> bool:
    """Return whether a machine is full so soon that nobody could react if the growth had to last longer."""
    minutes, rising, view, is_on_machine, _ = growth
    total = view.current.pulse.host.memory_total_bytes
    if minutes is None or total is None or not is_on_machine:
        return False
    gained = rising.per_minute * rising.seconds / 60
    return minutes * 60 < FAST_TIMES * rising.seconds and gained >= FAST_SHARE * total


def _is_growth(facts: RunFacts, rising: Trend, size: int | None) -> bool:
    """Return whether a rise counts, for a process of this size."""
    least, top = facts.number(HOST_GROWTH), max(rising.top, size or 0)
    rise = rising.per_minute * rising.seconds / 60
    share = MIN_GAIN_SHARE if rising.seconds >= LASTS else MIN_EARLY_GAIN_SHARE
    return rising.per_minute >= max(least, HOST_GROWTH_SHARE * top) and rise >= max(
        MIN_GAIN_BYTES, share * top
    )


def _is_from_arrays(facts: RunFacts, view: HostView, rising: Trend) -> bool:
    """Return whether arrays make up half of the growth: those of CPU devices are in the process's memory."""
    if not view.host.is_on_cpu:
        return False
    per_device = sum(each.bytes_per_minute for each in facts.growers)
    return per_device * len(view.host.devices) >= rising.per_minute / 2


def _compiled_at(view: HostView) -> float:
    """Return when a program was last compiled: compilers leave memory behind, which is not growth."""
    pulse, now = view.current.pulse, view.current.pulse_at or 0.0
    if pulse.compiling:
        return now
    ago_ms = pulse.at_ms - max(view.host.programs.seen_ms, default=0)  # by the clock of the host
    return now - ago_ms / 1000


def _until_host_is_full(view: HostView, rising: Trend, machine: Trend | None) -> float | None:
    """Return in how many minutes a machine or container has no memory left; None if that is unknown."""
    # Other processes may grow, too.
    rates = (rising.per_minute, None if machine is None else machine.per_minute)
    return minutes_until_full(view.current.pulse.host, rates)


def _growth_finding(facts: RunFacts, growing: list[_GrowingProcess]) -> Finding:
    worst = min(growing, key=lambda each: (not each.is_on_machine, each.minutes is None, each.minutes or 0.0))
    minutes, rising, view, is_on_machine, holder = worst
    host, sample = view.host, view.current.pulse.host
    until = "" if minutes is None or minutes > MONTH else f"; machine full in {in_minutes(minutes)}"
    of_step = per_step(rising.per_minute, view)
    each_step = "" if of_step is None else f", {in_bytes(of_step)} a step"
    what = f": {holder.words}" if holder.words else ""
    who = host_names([each.view.host for each in growing])
    is_full = (sample.memory_used_bytes or 0) >= HOST_FULL * (sample.memory_total_bytes or 1)
    severity = Severity.INFO
    is_fast = _is_fast(worst)
    if minutes is not None and is_on_machine and (rising.seconds >= LASTS or is_fast):
        if minutes < facts.number(HOST_FULL_CRITICAL_MINUTES) and is_full:
            severity = Severity.CRITICAL
        elif minutes < facts.number(HOST_FULL_WARNING_MINUTES):
            severity = Severity.WARNING
    return Finding(
        severity,
        min(0.9, 0.4 + rising.seconds / 240),
        f"{who}: memory grows by {in_bytes(rising.per_minute)} a minute{each_step}{what}{until}",
        Subject.of(host),
        cost=FindingCost(minutes_until_full=None if minutes is None else round(minutes, 1)),
        evidence=(
            Evidence("growth a minute", rising.per_minute, "bytes", "kernel", facts.read_time()),
            Evidence("resident memory", sample.rss_bytes, "bytes", "kernel", view.current.pulse_at),
            Evidence(
                "machine's memory in use", sample.memory_used_bytes, "bytes", "kernel", view.current.pulse_at
            ),
            Evidence("machine's memory", sample.memory_total_bytes, "bytes", "kernel", view.current.pulse_at),
            Evidence("observed for", rising.seconds, "seconds", "kernel", facts.read_time()),
            *(
                ()
                if of_step is None
                else (Evidence("growth a step", of_step, "bytes", "kernel", facts.read_time()),)
            ),
            *_growth_by_holder(facts, view),
        ),
        proof=Proof("hosts", row=host.agent, column=_COLUMNS[holder]),
        advice=holder.advice,
        since=facts.read_time() - rising.seconds
        if is_fast
        else 0.0,  # it holds since then, and is reported at once
    )


def _growth_by_holder(facts: RunFacts, view: HostView) -> Iterator[Evidence]:
    """Yield the growth of each holder that gains or loses a MiB a minute, the fastest first."""
    found = sorted(growths(facts.cluster, view).items(), key=lambda each: -abs(each[1].per_minute))
    for name, growth in found:
        if abs(growth.per_minute) >= MIB and name != "rss_bytes":
            figure = FIGURES[name]
            title = f"growth of {figure.title} a minute"
            yield Evidence(title, growth.per_minute, "bytes", figure.source, facts.read_time())


RULES = (
    Rule(
        name="host_memory_growth",
        title="Host memory grows",
        threshold="a process that makes steps and compiles nothing grows steadily by 32 MiB and 0.5 % a "
        "minute",
        details=(
            "It counts once it has gained 10 % of its size, or 2 % after 90 s.",
            (
                "A warning after 90 s if the memory in use of its machine grows by half of that and "
                "is full within 4 hours; critical if that memory is also 75 % full, and full within "
                "10 minutes."
            ),
            (
                "A process that took a tenth of its machine's memory is reported after 12 s, with "
                "these severities, if the rest lasts less than four times as long."
            ),
            "Child processes count like the process. Pages of mapped files are a note.",
        ),
        rationale="The kernel ends the process once the memory of the machine or container is used up.",
        source="the resident memory of the process by kind, malloc, its child processes and the machine's "
        "memory, over the last two minutes",
        advice="Look for lists and caches that grow in the script or its data loader: tracemalloc compares "
        "two moments by line.",
        check=_host_growth,
        holds_for=6.0,
        stays_for=20.0,
        numbers=(HOST_GROWTH, HOST_FULL_WARNING_MINUTES, HOST_FULL_CRITICAL_MINUTES),
    ),
)
