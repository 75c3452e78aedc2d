"""Takes samples of where a step goes, in which the overview shows the last hour."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from jaxtop.model.hosts import runs
from jaxtop.model.shares import SHORTEST_S, WHOLE, PastSteps, StepSample
from jaxtop.model.steps.views import past_of
from jaxtop.model.wall_time.step_parts import run_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop.model.hosts import Run
    from jaxtop.model.keyframe import Message
    from jaxtop.model.state import ClusterState, LoggedEvent
    from jaxtop.wire import Rhythm


def reduce(state: ClusterState, _agent: str, _message: Message, at: float) -> list[LoggedEvent]:
    """Take a sample of each run where the rules were just checked: they need the same parts."""
    if state.findings.checked_at != at:
        return []
    # Many messages have the time of a check: of a poll all have the same. The samples are taken once.
    samples = state.derived.get(
        "samples of a check", (state.findings.checked_at,), lambda: _samples(state, at)
    )
    for left in state.past_steps.keys() - samples.keys():
        del state.past_steps[left]
    for run, sample in samples.items():
        before = state.past_steps.get(run)
        if sample is not None and (before is None or before.at != at):
            begun = before if before is not None and at >= before.at else PastSteps(at, ())
            state.past_steps[run] = begun.plus(at, sample)
    return []


def _samples(state: ClusterState, at: float) -> dict[str, StepSample | None]:
    """Return the sample of each run; None where it is too early for one, or nothing is known."""
    found: dict[str, StepSample | None] = {}
    for run in runs(state, at):
        before = state.past_steps.get(run.id)
        is_early = before is not None and 0 <= at - before.at < before.every_s * 0.9
        sample = None if is_early else _sample(state, run, at)
        is_known = sample is not None and (sample.parts or sample.p50_us is not None)
        found[run.id] = sample if is_known else None
    return found


def _sample(state: ClusterState, run: Run, at: float) -> StepSample:
    """Return the sample of a run; an empty one while its steps have stopped: their figures are old then."""
    hosts = [view.current for view in run.hosts if not view.state.is_silent]
    stepping = [host for host in hosts if host.pulse.rhythm is not None]
    moving = [host for host in stepping if past_of(host) is None]
    if stepping and not moving:
        return StepSample(round(SHORTEST_S * WHOLE))
    found = run_parts(state, at, run.id)
    known = [rhythm for host in moving if (rhythm := host.pulse.rhythm) is not None]
    parts = () if found is None else tuple(max(0, round(share * WHOLE)) for share in found.parts[:5])
    return StepSample(
        round(SHORTEST_S * WHOLE),
        parts,
        _median(known, lambda rhythm: rhythm.p50_us),
        _median(known, lambda rhythm: rhythm.p99_us),
    )


def _median(rhythms: Iterable[Rhythm], read: Callable[[Rhythm], int | None]) -> int | None:
    known = [value for each in rhythms if (value := read(each)) is not None]
    return round(median(known)) if known else None
