"""The curves of scalars: means over equal times, however long a script runs, and how they are shown."""

from __future__ import annotations

from math import inf, isnan, nan
from statistics import fmean
from types import SimpleNamespace

import msgspec
import pytest

from jaxtop import wire
from jaxtop.model import figure_series, keyframe
from jaxtop.model.figures import scalar_figure
from jaxtop.tui.draw.plot import PlotLine, extent
from jaxtop.wire.scalars import MOST_CURVES, MOST_VALUES
from jaxtop_agent.core.board import LedgerState, SamplerState
from jaxtop_agent.logged.courses import Courses
from jaxtop_agent.logged.curve import FIRST_MS, AllCurves, CurveBuilder
from jaxtop_agent.steps.progress import Progress
from tests.builders import NOW, agent_id, folded, frame, well

AT_MS = int(NOW * 1000)


def kept(values, every_ms=1000):
    builder = CurveBuilder("loss", AT_MS)
    for number, value in enumerate(values):
        builder.add(value, AT_MS + number * every_ms)
    return builder.curve()


def test_each_value_is_the_mean_of_what_came_in_its_time():
    curve = kept([4.0, 2.0, 1.0, nan, 5.0, inf])
    assert (curve.name, curve.since_ms, curve.every_ms) == ("loss", AT_MS, FIRST_MS)
    assert list(curve.values) == [3.0, inf, inf], "what is not finite stays to be seen"
    gap = kept([1.0, 2.0], every_ms=2 * FIRST_MS)
    assert [None if isnan(each) else each for each in gap.values] == [1.0, None, 2.0]


@pytest.mark.parametrize("seconds", [300, 10_000, 100_000])
def test_a_long_curve_has_as_many_values_and_they_are_means_over_longer_times(seconds):
    true = [1 / (1 + number / 100) for number in range(seconds)]
    curve = kept(true)
    width = curve.every_ms // 1000
    assert MOST_VALUES // 2 < len(curve.values) <= MOST_VALUES and width * MOST_VALUES >= seconds
    for place, value in enumerate(curve.values):
        assert value == pytest.approx(fmean(true[place * width : (place + 1) * width]), rel=0.01)


def test_a_clock_that_jumps_back_harms_nothing():
    builder = CurveBuilder("loss", AT_MS)
    builder.add(1.0, AT_MS - 10_000)
    builder.add(2.0, AT_MS + 400 * 86_400_000 * MOST_VALUES)  # beyond the longest curve
    assert list(builder.curve().values)[:1] == [1.0] and len(builder.curve().values) <= MOST_VALUES


def test_what_a_writer_writes_at_once_is_spread_over_the_time_since_it_wrote_last():
    curves = AllCurves()
    for number in range(3):
        for value in range(60):
            curves.note("loss", "file", float(number * 60 + value))
        curves.gather(AT_MS + number * 120_000)
    (curve,) = curves.message(AT_MS).curves
    known = [each for each in curve.values if not isnan(each)]
    assert known == sorted(known) and len(known) > 50


def test_what_a_writer_held_back_is_drawn_at_the_time_at_which_it_was_logged():
    curves = AllCurves(AT_MS - 60_000)
    for second in range(0, 120, 10):
        curves.note("loss", "file", float(second), NOW + second)
    curves.gather(AT_MS + 120_000)
    curves.note("loss", "file", 500.0, NOW + 130)
    curves.gather(AT_MS + 130_500)
    (curve,) = curves.message(AT_MS).curves
    assert curve.since_ms == AT_MS
    drawn = {
        place * curve.every_ms // 1000: value for place, value in enumerate(curve.values) if not isnan(value)
    }
    assert drawn == {second: float(second) for second in range(0, 120, 10)} | {130: 500.0}


@pytest.mark.parametrize("at", [NOW - 61, NOW + 9, nan, inf, None], ids=str)
def test_a_time_that_cannot_be_true_is_replaced_by_that_of_reading(at):
    """A file that another process began, a clock that jumps, or a damaged record."""
    curves = AllCurves(AT_MS - 60_000)
    curves.note("loss", "file", 1.0, at)
    curves.gather(AT_MS)
    assert curves.message(AT_MS).curves[0].since_ms == AT_MS


def test_losses_take_the_place_of_others_where_there_are_too_many():
    curves = AllCurves()
    for number in range(MOST_CURVES + 5):
        curves.note(f"m{number}", "agent", 1.0)
    curves.gather(AT_MS)
    curves.note("loss", "agent", 2.0)
    assert curves.gather(AT_MS + 1)
    names = [each.name for each in curves.message(AT_MS).curves]
    assert len(names) == MOST_CURVES and names[-1] == "loss" and names[0] == "m0"
    assert not curves.gather(AT_MS + 2)


def test_many_or_long_curves_are_sent_more_rarely_and_new_ones_soon():
    curves = AllCurves()
    curves.note("loss", "agent", 1.0)
    curves.gather(AT_MS)
    pauses = [curves.pause(1) for _ in range(6) if curves.message(AT_MS)]
    assert (pauses, curves.pause(1024)) == ([4, 8, 12, 16, 20, 20], 512)
    for number in range(MOST_CURVES):
        curves.note(f"m{number}", "agent", 1.0)
        curves.gather(AT_MS)
        curves.note(f"m{number}", "agent", 1.0)
    curves.gather(AT_MS + MOST_VALUES * FIRST_MS - 1)
    sent = len(wire.encode(curves.message(AT_MS)))
    assert sent / curves.pause(1) < 120


def test_the_goodbye_of_a_script_has_its_curves_up_to_the_last_value():
    board, progress, sent = SimpleNamespace(sampler=SamplerState(), ledger=LedgerState()), Progress(), []
    board.send = lambda each, **_: sent.append(each)
    courses = Courses(board, progress)
    courses.finish()
    assert sent == [] and board.ledger == LedgerState()
    for step in range(10):
        progress.step(step, {"loss": 1.0, "lr": 0.5})
        progress.gather()
        courses.look()
    assert [len(each.curves) for each in sent] == [2]  # the others are sent later
    progress.step(10, {"loss": 12.0})
    progress.gather()
    courses.finish()
    last = board.ledger.curves
    assert last is not None
    loss = last.curves[0]
    assert loss.name == "loss" and max(loss.values) > 1.0


def test_a_viewer_that_comes_late_or_jumps_has_the_curve_from_the_start_to_the_last_pulse():
    curve, rare = kept([4.0, 4.0, nan, nan, 2.0, 2.0]), kept([4.0, 2.0], every_ms=2 * FIRST_MS)
    rare = msgspec.structs.replace(rare, name="rare")
    last = wire.Pulse(AT_MS + 20_000, step=wire.Step(9, 9, {"loss": nan, "rare": 0.5}))
    sent = [
        frame(agent_id(0), wire.Curves(AT_MS + 6_000, (curve, rare)), NOW + 6),
        frame(agent_id(0), last, NOW + 20),
    ]
    cluster = folded([*well(), *sent])
    points = figure_series(cluster, agent_id(0), scalar_figure("loss"))
    unseen = NOW + 6, None  # from when the curve was sent until the viewer came
    assert points == [(NOW + 1, 4.0), (NOW + 3, None), (NOW + 5, 2.0), unseen, (NOW + 20, None)]
    drawn = [(NOW + 1, 4.0), (NOW + 3, 3.0), (NOW + 5, 2.0), unseen, (NOW + 20, 0.5)]
    assert figure_series(cluster, agent_id(0), scalar_figure("rare")) == drawn
    (_, end, _, _) = extent([PlotLine("a", tuple(points), is_chosen=True)], None)
    assert end >= NOW + 20, "a plot of what is not finite any more goes on to now"
    again = folded(keyframe.frames(cluster, NOW + 20))
    assert figure_series(again, agent_id(0), scalar_figure("loss")) == points
    assert figure_series(cluster, agent_id(1), scalar_figure("loss")) == []


def test_what_a_viewer_sees_after_the_curve_continues_it_without_a_gap():
    curve, same = kept([4.0, 2.0]), msgspec.structs.replace(kept([3.0]), name="same")
    pulses = [
        (4 + i, wire.Pulse(AT_MS + (4 + i) * 1_000, step=wire.Step(i, i, {"loss": 1.0 - i / 8, "same": 3.0})))
        for i in (1, 2, 3, 4)
    ]
    sent = [frame(agent_id(0), wire.Curves(AT_MS + 4_000, (curve, same)), NOW + 4)]
    cluster = folded([*well(), *sent, *(frame(agent_id(0), each, NOW + at) for at, each in pulses)])
    seen = [(NOW + 4 + i, 1.0 - i / 8) for i in (1, 2, 3, 4)]
    assert figure_series(cluster, agent_id(0), scalar_figure("loss"))[1:] == seen
    late = folded([*well(), *sent, frame(agent_id(0), pulses[-1][1], NOW + 8)])
    assert (NOW + 4, None) in figure_series(late, agent_id(0), scalar_figure("loss"))
    values = [value for _, value in figure_series(late, agent_id(0), scalar_figure("same"))]
    assert set(values) == {3.0}, "nothing was logged meanwhile"
    cluster.feed(frame(agent_id(0), wire.Curves(AT_MS + 9_000, (curve,)), NOW + 9))
    assert [at for at, _ in figure_series(cluster, agent_id(0), scalar_figure("loss"))] == [NOW + 1, NOW + 8]


def test_bytes_of_a_hostile_agent_are_no_error():
    odd = wire.ScalarCurve("loss", AT_MS, 1, b"\x00\x01\x02\x03\x04\x05")
    cluster = folded([*well(), frame(agent_id(0), wire.Curves(AT_MS, (odd,)), NOW)])
    assert len(figure_series(cluster, agent_id(0), scalar_figure("loss"))) <= 1
