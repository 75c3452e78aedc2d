"""Device memory that fills up, and arrays that grow."""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.units import in_bytes, in_minutes
from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.findings.sentences import containing, line_of
from jaxtop.model.findings.trends import MIN_POINTS, least, makes_steps, trend
from jaxtop.model.hardware.allocators import free_bytes, usable_bytes
from jaxtop.model.host import device_entry
from jaxtop.model.naming.sentences import host_names
from jaxtop.model.steps.views import past_of
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model.arrays.growth import Grower
    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.findings.trends import Trend
    from jaxtop.model.liveness import HostView
    from jaxtop.wire import Pulse

FULL_WARNING_MINUTES = Number("warning_minutes", 60.0, "a warning if a device is full in less than this")
FULL_CRITICAL_MINUTES = Number("critical_minutes", 10.0, "critical if a device is full in less than this")
# The devices whose whole history is examined: those that a rough estimate puts first.
MAX_EXAMINED = 16
# The shortest growth, in seconds, that is a warning: without a steady rate, arrays may stop growing.
MIN_GROWTH_S = 60.0
# The longest time until a device is full, in minutes, that is a warning.
DAY_MINUTES = 24 * 60.0
# Growth this many times as strong, at an even rate and while steps go on, is a warning sooner.
FAST_GROWTH_RATIO = 8
GROWTH_WARNING_BYTES = Number(
    "warning_bytes_per_minute", 1 << 20, "a warning from this growth on, without a limit of memory"
)


# Device memory


class _FillingDevice(NamedTuple):
    """A device that fills up, by a rough estimate."""

    minutes: float
    view: HostView
    position: int


class _RisingDevice(NamedTuple):
    """A device whose memory keeps rising."""

    minutes: float
    trend: Trend
    view: HostView
    position: int


def _full_soon(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for the device of the run that is full first."""
    limited = [view for view in facts.reporting if view.current.pulse.devices.limit_bytes]
    if not limited:
        raise Unmeasured("no device reports a limit of its memory")
    later = facts.number(FULL_WARNING_MINUTES)
    estimates = [each for view in limited for each in _estimates(facts, view, 1.5 * later)]
    rising = []
    for each in nsmallest(MAX_EXAMINED, estimates, key=itemgetter(0)):
        samples = facts.cluster.past_pulses[each.view.host.agent]
        found = trend([(sample.at, device_entry(sample.used_bytes, each.position)) for sample in samples])
        if found is not None:
            free = (usable_bytes(each.view.current.pulse.devices, each.position) or 0) - found.top
            rising.append(_RisingDevice(max(0.0, free) / found.per_minute, found, each.view, each.position))
    soon = [each for each in rising if each.minutes < later]
    if soon:
        first = min(
            soon, key=lambda each: (round(each.minutes), each.view.host.process_index or 0, each.position)
        )
        yield _filling_finding(facts, first, len(soon))


def _estimates(facts: RunFacts, view: HostView, within: float) -> Iterator[_FillingDevice]:
    """Yield the devices of a host that may be full soon, from a few samples at both ends of its history."""
    samples = facts.cluster.past_pulses.get(view.host.agent)
    if samples is None or len(samples) < MIN_POINTS:
        return
    early = list(islice((each for each in samples if each.used_bytes is not None), 4))
    before, now = least(early), least(islice(reversed(samples), 4))
    minutes, pulse = (samples[-1].at - early[0].at) / 60 if early else 0.0, view.current.pulse
    for position, (was, used) in enumerate(zip(before, now, strict=False)):
        limit = usable_bytes(pulse.devices, position)
        if was is None or used is None or limit is None or used <= was:
            continue
        until_full = max(0, limit - used) * minutes / (used - was)
        if until_full < within:
            yield _FillingDevice(until_full, view, position)


def _filling_finding(facts: RunFacts, each: _RisingDevice, count: int) -> Finding:
    pulse, host, rising, minutes = each.view.current.pulse, each.view.host, each.trend, each.minutes
    device_id = host.devices[each.position].id if host.devices else each.position
    grower = _reason(facts.growers, rising.per_minute)
    why = "" if grower is None else f", by {_name(grower)}" + _made_at(grower)
    others = f" (and {count - 1} more)" if count > 1 else ""
    severity = Severity.CRITICAL if minutes < facts.number(FULL_CRITICAL_MINUTES) else Severity.WARNING
    return Finding(
        severity if makes_steps(each.view) else Severity.INFO,
        0.9 if grower else 0.75,
        f"device {device_id}{others} is full in {in_minutes(minutes)}: "
        f"+{in_bytes(rising.per_minute)} a minute{why}",
        Subject.of(
            host,
            device_id=device_id,
            array="" if grower is None else grower.name or "",
            source="" if grower is None else line_of(grower.created),
        ),
        cost=FindingCost(minutes_until_full=round(minutes, 1)),
        evidence=(
            Evidence(
                "growth a minute", rising.per_minute, "bytes", pulse.memory_source or "", facts.read_time()
            ),
            Evidence("most in use lately", rising.top, "bytes", pulse.memory_source or "", facts.read_time()),
            Evidence(
                "limit",
                usable_bytes(pulse.devices, each.position),
                "bytes",
                host.limit_source,
                facts.read_time(),
            ),
            Evidence("observed for", rising.seconds, "seconds", pulse.memory_source or "", facts.read_time()),
        ),
        proof=Proof("memory", f"id={device_id}", str(device_id)),
    )


def _reason(growers: Sequence[Grower], per_minute: float) -> Grower | None:
    """Return the arrays that make up at least half of the growth of a device, if any do."""
    return growers[0] if growers and growers[0].bytes_per_minute >= per_minute / 2 else None


# Arrays


def _name(grower: Grower) -> str:
    return grower.name or "unnamed arrays"


def _made_at(grower: Grower) -> str:
    return f", {line_of(grower.created)}" if grower.created else ""


def _array_growth(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for each name or line whose arrays keep growing."""
    if not any(len(facts.cluster.past_arrays.get(view.host.agent, ())) > 1 for view in facts.reporting):
        raise Unmeasured("arrays were not counted often enough yet")
    views = {view.host.agent: view for view in facts.reporting}
    for grower in facts.growers:
        view = views.get(grower.agent)
        if view is not None:
            yield _growth_finding(facts, grower, view)


def _growth_finding(facts: RunFacts, grower: Grower, view: HostView) -> Finding:
    minutes = _until_full(view.current.pulse, grower.bytes_per_minute)
    name, grow = _name(grower), "grows" if grower.name else "grow"
    of_host = f" of {host_names([view.host])}" if len(facts.present) > 1 else ""
    grows, limit = grower.bytes_per_minute, facts.number(GROWTH_WARNING_BYTES)
    if minutes is not None:
        grows, limit = DAY_MINUTES, minutes
    # A loop that collects something for a while, such as an evaluation, makes no steps meanwhile.
    is_clear = grower.is_even and grows >= FAST_GROWTH_RATIO * limit and past_of(view.current) is None
    is_lasting = (grower.seconds >= MIN_GROWTH_S or is_clear) and makes_steps(view)
    until = "" if minutes is None or minutes > 30 * DAY_MINUTES else f"; full in {in_minutes(minutes)}"
    asked = (
        containing("name", grower.name.partition("[*]")[0])  # all arrays of a grower share it
        if grower.name
        else containing("created", line_of(grower.created))
    )
    return Finding(
        Severity.WARNING if grows >= limit and is_lasting else Severity.INFO,
        min(0.95, 0.6 + grower.seconds / 300),
        f"{name} {grow} by {in_bytes(grower.bytes_per_minute)} a minute on a device{of_host}"
        f" (now {in_bytes(grower.bytes_per_device)}){_made_at(grower)}{until}",
        Subject(
            agent=grower.agent,
            process_index=view.host.process_index,
            array=grower.name or "",
            source=line_of(grower.created),
        ),
        about=grower.name or grower.created or "",
        cost=FindingCost(minutes_until_full=None if minutes is None else round(minutes, 1)),
        evidence=(
            Evidence("growth a minute", grower.bytes_per_minute, "bytes", "arrays", facts.read_time()),
            Evidence("bytes on a device", grower.bytes_per_device, "bytes", "arrays", facts.read_time()),
            Evidence("grown for", grower.seconds, "seconds", "arrays", facts.read_time()),
            Evidence("made at", grower.created or "unknown", source="arrays"),
        ),
        proof=Proof("arrays", asked, grower.name or ""),
    )


def _until_full(pulse: Pulse, per_minute: float) -> float | None:
    """Return in how many minutes the fullest device of a process is full; None if no limit is known."""
    free = free_bytes(pulse)
    return min(free) / per_minute if free else None


RULES = (
    Rule(
        name="memory_full_soon",
        title="Memory full soon",
        threshold="the memory of a device rises steadily and reaches its limit within 60 minutes; critical "
        "within 10 minutes, only a note before the first step",
        rationale="The allocation that does not fit ends the run; work since the last checkpoint is lost.",
        source="the allocator's bytes in use over the last two minutes; the troughs of six blocks must rise",
        advice="Look at what grows (Memory, GROWING): keep losses and outputs as numbers or NumPy arrays, "
        "not as device arrays in a list.",
        check=_full_soon,
        stays_for=15.0,
        explains=("array_growth", "uneven_memory"),
        numbers=(FULL_WARNING_MINUTES, FULL_CRITICAL_MINUTES),
    ),
    Rule(
        name="array_growth",
        title="Arrays grow",
        threshold="arrays of one name or line gain 64 KiB a minute, in three rises and without a fall",
        details=(
            (
                "A warning after 60 s if they fill the device within a day, or without a limit from 1"
                " MiB a minute on."
            ),
            "Reported after three even rises if they grow eight times as fast while steps go on.",
        ),
        rationale="A list that keeps a device array of each step fills the memory sooner or later.",
        source="counts of the live arrays of each process over two minutes",
        advice="Look at the line that creates them: something keeps a reference to each. Convert what is "
        "collected with float() or jax.device_get().",
        check=_array_growth,
        stays_for=20.0,
        explains=("uneven_memory",),
        numbers=(GROWTH_WARNING_BYTES,),
    ),
)
