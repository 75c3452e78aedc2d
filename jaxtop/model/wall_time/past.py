"""Takes samples of where a step goes, in which the overview shows the last hour."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from jaxtop.model.hosts import runs
from jaxtop.model.past_steps import SHORTEST_S, WHOLE, PastSteps, StepSample
from jaxtop.model.wall_time.step_parts import run_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop.model.hosts import Run
    from jaxtop.model.keyframe import Message
    from jaxtop.model.state import ClusterState, LoggedEvent
    from jaxtop.wire import Rhythm


def reduce(state: ClusterState, _agent: str, _message: Message, at: float) -> list[LoggedEvent]:
    """Take a sample of each run where the rules were just checked: they need the same parts."""
    if state.findings.checked_at != at or any(each.at == at for each in state.past_steps.values()):
        return []
    present = {run.id: run for run in runs(state, at)}
    for left in state.past_steps.keys() - present.keys():
        del state.past_steps[left]
    for run in present.values():
        before = state.past_steps.get(run.id)
        if before is not None and 0 <= at - before.at < before.every_s * 0.9:
            continue
        sample = _sample(state, run, at)
        if sample.parts or sample.p50_us is not None:
            begun = before if before is not None and at >= before.at else PastSteps(at, ())
            state.past_steps[run.id] = begun.plus(at, sample)
    return []


def _sample(state: ClusterState, run: Run, at: float) -> StepSample:
    found = run_parts(state, at, run.id)
    rhythms = [view.current.pulse.rhythm for view in run.hosts if not view.state.is_silent]
    known = [each for each in rhythms if each is not None]
    parts = () if found is None else tuple(round(share * WHOLE) for share in found.parts[:5])
    return StepSample(
        round(SHORTEST_S * WHOLE),
        parts,
        _median(known, lambda rhythm: rhythm.p50_us),
        _median(known, lambda rhythm: rhythm.p99_us),
    )


def _median(rhythms: Iterable[Rhythm], read: Callable[[Rhythm], int | None]) -> int | None:
    known = [value for each in rhythms if (value := read(each)) is not None]
    return round(median(known)) if known else None
