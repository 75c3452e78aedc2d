"""The parts of a step over the last hour: bounded, and in a keyframe."""

from __future__ import annotations

import pytest

from jaxtop.model import Cluster, keyframe
from jaxtop.model.shares import LONGEST_S, MAX_SAMPLES, PastSteps, StepSample
from jaxtop.model.wall_time import past
from jaxtop.model.wall_time.past import _sample as sampled
from tests import builders
from tests.builders import NOW, agent_id
from tests.staged import collectives as staged_collectives
from tests.staged.hangs import stopped_steps

HALF = (500, 0, 0, 500, 0)


def after(seconds: float, every: float = 2.0, *, us: int = 100) -> PastSteps:
    """The samples of so many seconds from 0 on."""
    known = PastSteps(0.0, ())
    for i in range(int(seconds / every)):
        if not known.samples or i * every - known.at >= known.every_s:
            known = known.plus(i * every, StepSample(0, HALF, us, 2 * us))
    return known


def test_samples_become_fewer_with_time_and_cover_an_hour():
    short, hour, day = after(100), after(3600), after(86_400)
    assert len(short.samples) == 50 and short.since == 0.0
    assert len(hour.samples) <= MAX_SAMPLES and hour.since == pytest.approx(0.0, abs=5)
    assert len(day.samples) <= MAX_SAMPLES
    assert 3500 <= day.at - day.since <= MAX_SAMPLES * 2 * LONGEST_S


def test_columns_are_means_of_their_time_and_what_is_not_known_is_a_gap():
    known = PastSteps(0.0, ())
    for at, parts, us in ((0.0, (1000, 0, 0, 0, 0), 100), (2.0, HALF, 300), (60.0, (), None)):
        known = known.plus(at, StepSample(0, parts, us, us))
    whole = known.columns(-2.0, 2.5, 1)
    assert whole[0] == StepSample(0, (750, 0, 0, 250, 0), 200, 300)
    assert known.columns(10.0, 50.0, 2) == [None, None]
    assert [each and each.p50_us for each in known.columns(-2.0, 2.0, 2)] == [100, 300]


def test_a_keyframe_has_them():
    cluster, other = Cluster(), Cluster()
    for each in staged_collectives.late():
        cluster.feed(each)
    assert cluster.past_steps
    with other.restoring():
        for each in keyframe.frames(cluster, 1_800_000_000.0):
            other.feed(each)
    (before,), (after_it,) = cluster.past_steps.values(), other.past_steps.values()
    assert (after_it.at, after_it.samples) == (before.at, before.samples) and not other.rejected


def test_many_messages_of_one_time_cost_one_sample(monkeypatch):
    """All frames of a poll have one time, also those of a run of which no part is known yet."""
    taken = []
    monkeypatch.setattr(past, "_sample", lambda *facts: taken.append(1) or sampled(*facts))
    cluster = Cluster()
    for second in range(10):
        for index in range(8):
            at = NOW + second
            cluster.feed(builders.frame(agent_id(index), builders.hello(index, 8), at))
            cluster.feed(builders.frame(agent_id(index), builders.pulse(index, at), at))
    assert 0 < len(taken) <= 10


def test_samples_end_with_the_last_step_of_a_run_that_hangs():
    cluster = Cluster()
    for each in stopped_steps(seen=60, hung=40):
        cluster.feed(each)
    (found,) = cluster.past_steps.values()
    assert NOW - 45 < found.at < NOW - 35 and all(each.p50_us for each in found.samples)


def test_a_hang_that_began_before_the_viewer_came_has_no_samples():
    cluster = Cluster()
    for each in stopped_steps(seen=30, hung=130):
        cluster.feed(each)
    assert not cluster.past_steps
