"""What collectives show after the rhythm of the step has changed: windows taken since, and no others."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.export.json import to_document
from jaxtop.model import Cluster, reported_findings
from jaxtop.model.collectives import collective_views
from jaxtop.model.liveness import WINDOW
from jaxtop.model.wall_time.lateness import lateness_by_run
from jaxtop.model.wall_time.step_parts import run_parts
from jaxtop.recording import Recording
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, folded, frame
from tests.made import windows as made_windows
from tests.made.windows import Made
from tests.played.recordings import by_time, record_batches, session_of
from tests.stage import line, shown_after
from tests.support import SOAK

EVERY_S = 4
QUIET = Made(hosts=2, devices=2, noise_us=500)


def pulse(index, at, since=0.0):
    """A pulse of steps whose rhythm last changed at this time."""
    changed = {"since_ms": int(since * 1000), "before_us": 200_000} if since else {}
    rhythm = wire.Rhythm(
        1, ("train_step",), 50, 100, 300_000, 3_000, 50, 300_000, 300_000, 300_000, **changed
    )
    return builders.pulse(index, at, QUIET.devices, launches=int((at - NOW) * 3) + 10, rhythm=rhythm)


def run(*phases):
    """The frames of a run: each phase has its number of windows, and by how much host 1 is late in it.

    The last host notices a change of the rhythm three seconds later, and each dates it a little apart.
    """
    frames, at, since, number = [], NOW, 0.0, 0
    for index in range(QUIET.hosts):
        agent = agent_id(index)
        frames += [
            frame(agent, wire.Link(LinkState.UP, f"10.0.0.{index}:7411"), at),
            frame(agent, builders.hello(index, QUIET.hosts, QUIET.devices), at),
            frame(agent, wire.Programs(1, (made_windows.program(QUIET),)), at),
            frame(agent, made_windows.inventory(QUIET, index), at),
        ]
    for phase, (windows, late_ms) in enumerate(phases):
        made = QUIET._replace(late=1, late_us=late_ms * 1000)
        since, before = (at + 0.4, since) if phase else (since, since)
        for second in range(windows * EVERY_S or 6):
            at += 1
            for index in range(QUIET.hosts):
                seen = before if second < 3 * index and phase else since and since + 0.2 * index
                frames.append(frame(agent_id(index), pulse(index, at, seen), at))
            if windows and second % EVERY_S == EVERY_S - 1:
                for index in range(QUIET.hosts):
                    sent = made_windows.window(made, index, number, 5, int((at - 0.5) * 1000))
                    frames.append(frame(agent_id(index), sent, at + 0.01 * index))
                number += 1
    return frames


def psum(cluster):
    (one,) = (each for each in collective_views(cluster, NOW) if each.op == "all-reduce.3")
    return one


@pytest.mark.parametrize("late_ms", [20, 60, 150, 0])
def test_the_wait_follows_a_change_with_its_first_window(late_ms):
    """Planted in turn; one window of the new rhythm is enough, though eight of the old one are kept."""
    found = psum(folded(run((8, 90), (1, late_ms))))
    assert found.is_current and found.samples == 5 * QUIET.devices
    assert found.wait_us == pytest.approx(late_ms * 1000, abs=3_000)


def test_times_of_before_a_change_are_dated_and_out_of_findings():
    before = folded(run((8, 90)))
    assert psum(before).straggler.late_us == pytest.approx(90_000, abs=3_000)
    assert [each.rule for each in reported_findings(before)] == ["straggler"]
    after = folded(run((8, 90), (0, 0)))
    found = psum(after)
    assert not found.is_current and found.straggler is None and not found.is_enough
    assert found.wait_us == psum(before).wait_us  # dated, it may still be shown
    assert found.taken == (agent_id(0), int((NOW + 8 * EVERY_S - 0.5) * 1000))
    (shown,) = (each for each in to_document(after, NOW)["collectives"] if each["op"] == found.op)
    assert (shown["current"], shown["timed_ms"]) == (False, found.taken[1])


def test_a_straggler_costs_a_share_of_the_wall_time_as_the_panel_has_it():
    """Three steps a second, whose median is 300 ms: a tenth of the time lies between steps."""
    frames = run((8, 90))
    cluster, now = folded(frames), frames[-1].at
    (late,) = reported_findings(cluster)
    assert late.cost.share_of_step == pytest.approx(0.27, rel=0.05)
    assert " of a 333 ms step " in late.text
    assert run_parts(cluster, now).parts.waiting == pytest.approx(late.cost.share_of_step, rel=0.01)


def test_the_screen_dims_and_dates_them():
    told = run((8, 90), (0, 0))
    shown = shown_after(*told, keys=("6",), size=(120, 36))
    assert "outdated" in line("▌ all-reduce", shown)
    assert "ago, outdated" in shown
    assert "outdated" not in shown_after(*run((8, 90)), keys=("6",), size=(120, 36))


def test_a_straggler_ends_with_its_windows():
    """Ten seconds after the change, with no window or with one of a healthy step."""
    for windows in (0, 1):
        frames = run((8, 90), (windows, 0))
        last = frames[-1].at
        for second in range(1, 15):
            for index in range(QUIET.hosts):
                at = last + second
                frames.append(frame(agent_id(index), pulse(index, at, NOW + 8 * EVERY_S + 0.4), at))
        cluster = folded(frames)
        assert psum(cluster).straggler is None
        assert [each for each in reported_findings(cluster) if each.rule == "straggler"] == [], windows


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_verdict_that_no_window_renews_ends_by_itself(is_silent):
    """In the view, JSON, findings, and in the wait that panels and plans take from it."""
    frames = run((8, 90))
    cluster, last = folded(frames), frames[-1].at
    for passed in range(10, 1000, 10):
        now = last + passed
        if not is_silent:
            for index in range(QUIET.hosts):
                cluster.feed(frame(agent_id(index), pulse(index, now), now))
        cluster.check(now)
        (found,) = (each for each in collective_views(cluster, now) if each.op == "all-reduce.3")
        (shown,) = (each for each in to_document(cluster, now)["collectives"] if each["op"] == found.op)
        is_named = found.straggler is not None
        assert is_named == shown["current"] == (shown["straggler"] is not None) == found.is_current
        assert is_named == (passed + 0.5 <= WINDOW.ms / 1000)
        wait = run_parts(cluster, now)
        assert not lateness_by_run(cluster, now)["r1"].costs or is_named
        assert wait is None or bool(wait.late) <= is_named
    assert not [each for each in reported_findings(cluster) if each.rule == "straggler"]


def test_where_windows_are_rare_a_verdict_lasts_until_the_next_one():
    frames = run((8, 90))
    rare = [
        frame(each.agent, replace(wire.decode("window", each.raw), every_ms=1_024_000), each.at)
        for each in frames
        if each.kind == "window"
    ]
    cluster, last = folded([each for each in frames if each.kind != "window"] + rare), frames[-1].at
    named = [
        any(each.straggler for each in collective_views(cluster, last + passed)) for passed in (1_500, 2_100)
    ]
    assert named == [True, False]


def test_how_late_a_straggler_is_follows_the_change():
    found = psum(folded(run((8, 60), (2, 150))))
    assert found.straggler.process_index == 1
    assert found.straggler.late_us == pytest.approx(150_000, abs=3_000)


@pytest.mark.long
def test_a_moment_is_the_same_however_one_came_there(tmp_path, monkeypatch):
    """Live, played through, after jumps in both directions, and from a recording that began later."""
    monkeypatch.setattr("jaxtop.sources.recorder.FRAMES_BETWEEN", 20)
    frames = run((10, 90), (5, 0), (12, 150), (3, 20))
    live, shown = Cluster(), {}
    for each in frames:
        live.feed(each)
        shown[each.at] = waits(live)
    for name, first in (("whole", 0), ("later", len(frames) // 8)):
        path = tmp_path / f"{name}.mcap"
        record_batches(path, by_time(frames[first:]), folded(frames[:first]))
        with Recording(path) as recording:
            assert len(recording.index.keyframes) >= 4
        moments = [at for at in shown if at > max(NOW + 1, frames[first].at)]
        with session_of(path) as session:
            for at in (*moments[:: 1 if SOAK else 4], *random.Random(3).sample(moments, 40 if SOAK else 12)):
                assert waits(session.at(at)) == shown[at], (name, at - NOW)


def waits(cluster):
    found = collective_views(cluster, NOW)
    return {each.op: (each.wait_us, each.samples, each.is_current, each.straggler) for each in found}
