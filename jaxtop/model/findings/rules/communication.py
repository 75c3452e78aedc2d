"""Exposed communication: how much, many small collectives, an axis that crosses hosts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import units
from jaxtop.model.collectives.small_collectives import SMALL_BYTES
from jaxtop.model.collectives.sums import axis_traffic
from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.hardware.domains import name_of_domains
from jaxtop.model.programs.rates import least_rate
from jaxtop.model.tuning import Number
from jaxtop.model.wall_time.launch_times import has_current_windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model.collectives.sums import AxisTraffic
    from jaxtop.model.collectives.views import CollectiveView
    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.liveness import HostView

COMMUNICATION_SHARE = Number("share", 0.3, "reported from this share of a step on")
SMALL_SHARE = HEAVY_SHARE = Number("share", 0.05, "reported from this share of the time on")
SMALL_COLLECTIVES = Number("count", 20, "reported from this many in a launch on")
MAX_BYTES = Number("most_bytes", SMALL_BYTES, "bytes up to which a collective is small")
AXIS_BYTES_RATIO = Number("times", 2.0, "reported from this many times the bytes of the other axis on")
WARNING_SHARE = Number("warning_share", 0.15, "a warning from this share of the time on")
_WINDOWS = "profiler windows"


def _us_per_second(view: CollectiveView) -> float:
    """Return the time of a collective in each second, without the wait for the last member."""
    took = view.transfer_us if view.transfer_us is not None else view.p50_us
    return 0.0 if took is None or view.per_second is None else took * view.per_second


def _with_least_rate(facts: RunFacts, view: CollectiveView) -> CollectiveView:
    """Return a collective with a lower bound of its rate, where its program is too new for a measured one."""
    if view.per_second is not None or not view.times or not view.samples:
        return view
    least = max((least_rate(each.current, view.program) for each in facts.reporting), default=0.0)
    return replace(view, per_second=least * view.times) if least else view


def _small_us_per_second(view: CollectiveView) -> float:
    """Return the time of a small collective in each second, on the mean of its devices.

    Its cost is the wait for the others, unless a straggler makes them wait.
    """
    waits = 0.0 if view.straggler is not None or not view.waits_us else fmean(view.waits_us.values())
    return _us_per_second(view) + waits * (view.per_second or 0.0)


def _slowdown_over_medians(facts: RunFacts, program: list[CollectiveView]) -> float:
    """Return how many times as long as their medians the collectives of a program take in its launches.

    Where there are many collectives, a few take far longer than usual, and no median shows these. It is 1
    where not all are measured, or a straggler is waited for.
    """
    one = program[0]
    all_times = [
        each
        for view in facts.reporting
        if (each := view.current.launches_in_windows.get(one.program)) is not None
    ]
    times = [each.times[one.fingerprint] for each in all_times if one.fingerprint in each.times]
    exposed = [each.exposed_us / each.number for each in times if each.exposed_us and each.number]
    launches = max(
        (each.per_second / each.times for each in program if each.per_second and each.times), default=0
    )
    if not exposed or any(each.straggler is not None or not _us_per_second(each) for each in program):
        return 1.0
    return max(1.0, fmean(exposed) * launches / sum(map(_small_us_per_second, program)))


def _axes(view: CollectiveView | AxisTraffic) -> str:
    return ", ".join(view.axes or ())


def _is_timed(facts: RunFacts, view: HostView) -> bool:
    """Return whether a window shows launches of the step of a host."""
    parts = facts.parts.get(view.host.agent)
    return parts is not None and parts.at is not None


def _communication_bound(facts: RunFacts) -> Iterator[Finding]:
    timed = [view for view in facts.reporting if _is_timed(facts, view)]
    if not timed:
        raise Unmeasured("no window of the profiler contains a launch of the step")
    # Slower steps may communicate for longer: earlier launches say nothing about that.
    if facts.run_parts is None or not any(has_current_windows(each.current) for each in timed):
        raise Unmeasured("no window was taken since the time of a step changed")
    mean = facts.run_parts.parts
    step_ms, views = facts.step_ms, [each for each in facts.collectives if _us_per_second(each)]
    if mean.communication < facts.number(COMMUNICATION_SHARE) or not views:
        return
    top = max(views, key=_us_per_second)
    ms = None if step_ms is None else mean.communication * step_ms
    over = f" over {_axes(top)}" if top.axes else ""
    yield Finding(
        Severity.INFO if facts.is_on_cpu else Severity.WARNING,
        0.8,
        f"{mean.communication:.0%} of the time is exposed communication"
        + (f" ({units.ms(ms)} ms a step)" if ms is not None else "")
        + f": mostly {top.op}{over}",
        Subject(program=top.program, collective=top.op, axis=_axes(top)),
        cost=FindingCost(ms, mean.communication),
        evidence=(
            Evidence("exposed communication", mean.communication, "ratio", _WINDOWS, mean.at),
            Evidence("waiting for others", mean.waiting, "ratio", _WINDOWS, mean.at),
            Evidence(f"{top.op}, time per second", _us_per_second(top) / 1e6, "seconds", _WINDOWS, mean.at),
            Evidence(f"{top.op}, bytes", top.bytes, "bytes", "compiled program"),
        ),
        proof=Proof("collectives", row=top.op),
    )


class _SmallCollectives(NamedTuple):
    """Small collectives of one program from one place of the script."""

    views: list[CollectiveView]
    times: int
    share: float


def _small_collectives(facts: RunFacts) -> Iterator[Finding]:
    if not facts.collectives:
        raise Unmeasured("no collectives were measured")
    most, many, least = (facts.number(each) for each in (MAX_BYTES, SMALL_COLLECTIVES, SMALL_SHARE))
    groups: dict[tuple[str, str | None, str], list[CollectiveView]] = defaultdict(list)
    rated = [_with_least_rate(facts, each) for each in facts.collectives]
    for view in rated:
        if view.bytes is not None and view.bytes <= most and view.times:
            groups[view.program, view.fingerprint, _place(view)].append(view)
    small = []
    for views in groups.values():
        times = sum(each.times or 0 for each in views)
        if times >= many:
            small.append(_SmallCollectives(views, times, sum(map(_small_us_per_second, views)) / 1e6))
    small = [each for each in small if each.share >= least]
    if not small:
        return
    worst = max(small, key=lambda each: each.share)
    view, step_ms = max(worst.views, key=_us_per_second), facts.step_ms
    of_program = [
        each for each in rated if (each.program, each.fingerprint) == (view.program, view.fingerprint)
    ]
    share = min(1.0, worst.share * _slowdown_over_medians(facts, of_program))
    ms = None if step_ms is None else share * step_ms
    bytes_each = max(each.bytes or 0 for each in worst.views)
    yield Finding(
        Severity.WARNING,
        0.8,
        f"each launch of {view.program} runs {worst.times} {view.kind}s of at most {_size(bytes_each)} from "
        f"{_place(view)}: {share:.0%} of the time",
        Subject(program=view.program, collective=view.op, axis=_axes(view), source=view.line),
        about=view.program,
        cost=FindingCost(ms, share),
        evidence=(
            Evidence("collectives in a launch", worst.times, source="compiled program"),
            Evidence("largest of them", bytes_each, "bytes", "compiled program"),
            Evidence("share of the time", share, "ratio", _WINDOWS),
        ),
        proof=Proof("collectives", row=view.op),
    )


def _place(view: CollectiveView) -> str:
    """Return the line of the script, else the script's name of the operation."""
    return view.line or view.source or "one place"


def _size(count: int) -> str:
    return f"{count / 1024:.0f} KiB" if count >= 1024 else f"{count} bytes"


def _swappable(facts: RunFacts, traffic: Sequence[AxisTraffic]) -> Iterator[tuple[AxisTraffic, AxisTraffic]]:
    """Yield each busy axis that leaves what fast links join, with one that does not and moves far less."""
    sizes = dict(size for view in facts.collectives if view.mesh is not None for size in view.mesh.axes)
    heavier, least = (facts.number(each) for each in (AXIS_BYTES_RATIO, HEAVY_SHARE))
    known = [each for each in traffic if each.axes is not None and len(each.axes) == 1]
    busy = [each for each in known if each.us_per_second and each.us_per_second / 1e6 >= least]
    across = [each for each in busy if each.uses_network]
    within = [each for each in known if each.uses_network is False and not each.at_least]
    for heavy, light in product(across, within):
        size, moved, other = sizes.get(_axes(heavy)), heavy.bytes_per_second, light.bytes_per_second
        # Only axes of the same size can change places.
        if size is None or size != sizes.get(_axes(light)) or moved is None or other is None:
            continue
        if moved >= heavier * other:
            yield heavy, light


def _axis_crosses_hosts(facts: RunFacts) -> Iterator[Finding]:
    traffic = axis_traffic(facts.collectives)
    if not any(each.bytes_per_second for each in traffic):
        raise Unmeasured("the traffic along the axes is not known")
    found = list(_swappable(facts, traffic))
    if not found:
        return
    heavy, light = max(found, key=lambda pair: pair[0].us_per_second or 0)
    share, step_ms = (heavy.us_per_second or 0) / 1e6, facts.step_ms
    times = (heavy.bytes_per_second or 0) / max(1.0, light.bytes_per_second or 0)
    more = f"{times:.0f} times the bytes of" if times < 1000 else "far more than"
    domains = name_of_domains(
        next((view.host.hello.platform or "" for view in facts.reporting if view.host.hello), "")
    )
    is_warning = share >= facts.number(WARNING_SHARE) and not facts.is_on_cpu
    yield Finding(
        Severity.WARNING if is_warning else Severity.INFO,
        0.7,
        f"axis {_axes(heavy)} crosses {domains} and moves {more} {_axes(light)}, which stays within "
        f"{domains}: {min(1.0, share):.0%} of the time",
        Subject(axis=_axes(heavy)),
        about=f"{_axes(heavy)} {_axes(light)}",
        cost=FindingCost(None if step_ms is None else min(1.0, share) * step_ms, min(1.0, share)),
        evidence=tuple(
            Evidence(f"{_axes(each)}, bytes per second", each.bytes_per_second, "bytes", _WINDOWS)
            for each in (heavy, light)
        ),
        proof=Proof("collectives", filter=f"axis={_axes(heavy)}"),
    )


RULES = (
    Rule(
        name="communication_bound",
        title="Communication bound",
        threshold="30 % of the time is exposed communication, waits for late processes aside; a note on CPUs",
        rationale="While only a collective runs, the units that compute are idle.",
        source="launch counters and windows of the profiler",
        advice="Overlap it (XLA's latency-hiding scheduler), use larger batches per device, lower "
        "precision, or another sharding; jaxtop plan compares them.",
        check=_communication_bound,
        numbers=(COMMUNICATION_SHARE,),
    ),
    Rule(
        name="small_collectives",
        title="Small collectives",
        threshold="a launch has 20 collectives of at most 64 KiB from one place, which take 5 % of the time",
        rationale="A small collective takes as long as the messages take to arrive, however few bytes they "
        "have.",
        source="compiled programs and windows of the profiler",
        advice="Combine them: reduce a tree of arrays at once (jax.lax.psum takes a tree), or outside the "
        "loop.",
        check=_small_collectives,
        explains=("communication_bound",),
        numbers=(SMALL_SHARE, SMALL_COLLECTIVES, MAX_BYTES),
    ),
    Rule(
        name="axis_crosses_hosts",
        title="Axis across hosts",
        threshold="an axis that crosses hosts (TPUs: slices) moves twice the bytes of one of the same "
        "size that does not, for 5 % of the time; a warning from 15 % on",
        rationale="Links within a host, a slice of TPUs or an NVLink fabric are many times faster than the "
        "network between them.",
        source="compiled programs, meshes and windows of the profiler",
        advice="Swap the two axes in the mesh, so that the heavy one stays within hosts; jaxtop place "
        "ranks orders.",
        check=_axis_crosses_hosts,
        holds_for=10.0,
        numbers=(HEAVY_SHARE, AXIS_BYTES_RATIO, WARNING_SHARE),
    ),
)
