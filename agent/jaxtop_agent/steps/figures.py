"""The figures of a step, from the times between steps and the facts about its functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.steps.durations import StepGap, from_wait_to_wait, launches_a_step, step_times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop_agent.steps.changes import PauseSummary

# The last nanoseconds that current figures cover.
RECENT_NS = 10_000_000_000
# The number of steps that current figures cover at least, even if these take longer.
MIN_STEPS = 20
# Where the gaps that are remembered cover less than this, steps are counted instead.
SHORTEST_PAST_NS = 2_500_000_000
# Within less time than this, all launches may run ahead of the device, and say nothing about step durations.
SHORTEST_SIGHT_NS = 100_000_000
# Percentiles need at least this many steps.
FEWEST_FOR_PERCENTILES = 5


@dataclass(frozen=True)
class FunctionFacts:
    """The known facts about functions, by function number.

    `arguments` and `results` are the bytes that a launch takes and returns. `flops` are its operations on all
    devices of the process together, a lower bound for the functions in `at_least`. `own` are JAX's own
    functions, and `has_functions` is true if any function of the script was ever launched. `device_ns` is the
    duration of a launch on the device, if the profiler measured it.
    """

    arguments: Mapping[int, int | None] = field(default_factory=dict)
    results: Mapping[int, int | None] = field(default_factory=dict)
    flops: Mapping[int, int | None] = field(default_factory=dict)
    at_least: frozenset[int] = frozenset()
    own: frozenset[int] = frozenset()
    has_functions: bool = False
    device_ns: Mapping[int, int] = field(default_factory=dict)


class StepCount(NamedTuple):
    """Steps counted up to a time, or within one."""

    time_ns: int
    steps: int


class StepFigures(NamedTuple):
    """The step: its functions and its durations. The percentiles are over `samples` steps.

    Where most steps are launched ahead and share a wait, only the median of these shares is known.
    """

    functions: tuple[int, ...]
    launches: float
    mean_ns: float | None
    per_second: float | None
    samples: int
    p50_ns: float | None
    p90_ns: float | None
    p99_ns: float | None
    flops: float | None
    flops_at_least: bool = False
    # Since when steps have had this rhythm, and the mean step before, if that was another one.
    since: int = 0
    before_ns: float | None = None
    paused: PauseSummary | None = None


def figures(
    gaps: Sequence[StepGap],
    began: int,
    functions: tuple[int, ...],
    facts: FunctionFacts,
    now: int,
    *,
    counted: StepCount,
) -> StepFigures | None:
    """Return the figures of the steps since `began`; None while they are too few.

    `counted` are the steps of the last seconds. If steps are fast, the gaps show only the last moments.
    """
    if not gaps or gaps[-1].end - began < SHORTEST_SIGHT_NS:
        return None
    often = launches_a_step(gaps)
    durations = step_times(gaps, _device_ns_of_step(often, facts.device_ns))
    latest = [each.duration for each in durations if each.end > gaps[-1].end - RECENT_NS]
    if len(latest) < MIN_STEPS:
        latest = [each.duration for each in durations[-MIN_STEPS:]]
    all_of_them = [each.duration for each in durations]
    # Of steps that share a wait only the mean is known: how they differ would be how the waits differ.
    is_spread_known = 2 * sum(each.is_own for each in durations) >= len(durations)
    has_enough = len(all_of_them) >= FEWEST_FOR_PERCENTILES
    mean, per_second = fmean(latest) if latest else None, _pace(gaps, now)
    past = sum(gap.duration for gap in gaps)
    if past < SHORTEST_PAST_NS < counted.time_ns and counted.steps:
        per_second = counted.steps * 1e9 / counted.time_ns
        mean = min(mean, 1e9 / per_second) if mean is not None else None
    cuts = quantiles(all_of_them, n=100, method="inclusive") if has_enough else []
    return StepFigures(
        functions=functions,
        launches=sum(often.values()),
        mean_ns=mean,
        per_second=per_second,
        samples=len(all_of_them),
        p50_ns=cuts[49] if cuts else None,
        p90_ns=cuts[89] if cuts and is_spread_known else None,
        p99_ns=cuts[98] if cuts and is_spread_known else None,
        flops=_flops(often, facts),
        since=began,
        flops_at_least=any(each in facts.at_least or facts.flops.get(each) is None for each in often),
    )


def _device_ns_of_step(often: Mapping[int, float], device_ns: Mapping[int, int]) -> int | None:
    known = [times * device_ns[each] for each, times in often.items() if each in device_ns]
    return round(sum(known)) if known else None


def _flops(often: Mapping[int, float], facts: FunctionFacts) -> float | None:
    """Return the operations of a step; None if one of the script's functions has unknown operations."""
    total = 0.0
    for function, times in often.items():
        flops = facts.flops.get(function)
        if flops is not None:
            total += flops * times
        elif function not in facts.own:
            return None
    return total if often else None


def _pace(gaps: Sequence[StepGap], now: int) -> float | None:
    """Return the steps per second over the last seconds, including the work between steps."""
    latest = [gap for gap in gaps if gap.end > now - RECENT_NS]
    latest = latest if len(latest) >= MIN_STEPS else list(gaps[-MIN_STEPS:])
    longest = max(gap.duration for gap in latest)
    waited = now - latest[-1].end
    paid, unpaid = from_wait_to_wait(latest)
    counted, span = list(paid), sum(gap.duration for gap in paid)
    if waited > longest:  # the unfinished step counts once it takes longer than all others
        counted, span = [*paid, *unpaid], span + sum(gap.duration for gap in unpaid) + waited
    return sum(gap.steps for gap in counted) * 1e9 / span if span > 0 else None
