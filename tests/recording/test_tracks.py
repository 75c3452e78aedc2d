"""Recordings of several writers are one session: in the order of time, each message once."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from jaxtop import wire
from jaxtop.base import processes
from jaxtop.model import keyframe, state_of
from jaxtop.recording import Keyframe, Writer
from tests.builders import folded
from tests.made import sessions as made_sessions
from tests.made.sessions import Made, agent_id, later
from tests.played.recordings import record, session_of

MADE = Made(hosts=3, devices=2, seconds=60, has_trouble=False)
STATE = ("hello", "arrays", "programs", "inventory", "pulse")


def box(folder, index, *, frames=None, clock=None, is_finished=False, **about):
    """What an agent keeps of itself: its own messages by its own clock, and now and then its state."""
    agent = agent_id(index)
    told = made_sessions.frames(MADE) if frames is None else frames
    told = [each for each in told if each.agent == agent and each.kind not in (*wire.OWN_KINDS, "roster")]
    path = folder / f"box-{index}.mcap"
    given = {"writer": agent, "agent": agent, "hostname": f"node{index}", "boot": f"boot{index}", **about}
    writer = Writer(path, given)
    latest = {each.kind: each for each in told if each.at == told[0].at}
    writer.write_keyframe(Keyframe(told[0].at, tuple(latest.values())))
    for i, frame in enumerate(told[len(latest) :]):
        writer.write(frame)
        latest[frame.kind] = frame
        if i % 20 == 19 and frame.kind == "pulse":
            state = (latest[kind]._replace(at=frame.at) for kind in STATE)
            writer.write_keyframe(Keyframe(frame.at, tuple(state)))
    if clock is not None:
        writer.note_clock(*clock)
    writer.flush()
    if is_finished:
        writer.finish()
    else:
        writer.abandon()
    long_ago = time.time() - 1_000
    os.utime(path, (long_ago, long_ago))
    return path


def told_by(session):
    return [frame for frame in session.frames() if frame.kind not in wire.OWN_KINDS]


def of_agents():
    """What agents told; the roster is asked for by viewers."""
    return [each for each in made_sessions.frames(MADE) if each.kind not in (*wire.OWN_KINDS, "roster")]


def by_time(frames):
    return sorted(frames, key=lambda each: (each.at, each.agent))


def test_boxes_of_several_processes_are_merged_in_time(tmp_path):
    boxes = [box(tmp_path, index) for index in range(3)]
    with session_of(*boxes) as session:
        found = [each for each in told_by(session) if each.kind != "roster"]
        assert by_time(found) == by_time(of_agents())
        assert [each.at for each in found] == sorted(each.at for each in found)


def test_clocks_are_set_by_that_of_process_0(tmp_path):
    """Each writes by its own clock, and how far that is off; put together, the times are the true ones."""
    offsets = (0.0, 2.5, -40.0)
    frames = made_sessions.frames(MADE)
    boxes = [
        box(tmp_path, i, frames=[later(each, -offset) for each in frames], clock=(offset, 0.0004))
        for i, offset in enumerate(offsets)
    ]
    with session_of(*boxes) as session:
        found, expected = (by_time(each) for each in (told_by(session), of_agents()))
        assert [each[1:] for each in found] == [each[1:] for each in expected]
        assert max(abs(one.at - other.at) for one, other in zip(found, expected, strict=True)) < 1e-6
        assert "times of 3 processes agree within 0.8 ms" in session.notes
        pulses = {
            each.agent: each.at for each in frames if each.kind == "pulse" and each.at < MADE.start + 30
        }
        hosts = session.at(MADE.start + 30).hosts
        assert {agent: pytest.approx(host.pulse_at) for agent, host in hosts.items()} == pulses


def test_clocks_that_were_not_compared_are_named(tmp_path):
    boxes = [box(tmp_path, 0, clock=(0.0, 0.0)), box(tmp_path, 1), box(tmp_path, 2)]
    with session_of(*boxes) as session:
        assert "the clocks of node1, node2 were not compared: their times are uncorrected" in session.notes
    with session_of(boxes[1]) as session:
        assert not any("clock" in note for note in session.notes)


def test_processes_of_one_machine_share_a_clock(tmp_path):
    boxes = [box(tmp_path, index, boot="the same") for index in range(3)]
    with session_of(*boxes) as session:
        assert not any("clock" in note for note in session.notes)


def test_who_was_killed_is_dead_at_the_end_and_who_ended_is_not(tmp_path):
    boxes = [box(tmp_path, 0), box(tmp_path, 1, is_finished=True)]
    with session_of(*boxes) as session:
        last = max(each.at for each in of_agents() if each.agent == agent_id(0))
        assert state_of(session.at(last).hosts[agent_id(0)], last) == "live"
        end = session.span[1]
        hosts = session.at(end).hosts
        assert state_of(hosts[agent_id(0)], end) == "died"
        assert hosts[agent_id(1)].link.state != "dead"
        assert [
            (event.kind, event.agent) for event in session.at(end).events if event.severity == "critical"
        ] == [("died", agent_id(0))]


def test_a_process_that_lives_is_not_said_to_be_dead(tmp_path):
    """Its file is not finished, and was not written to for a while: it may stand still."""
    with subprocess.Popen(["sleep", "60"]) as process:
        ticks = str(processes.start_ticks(process.pid))
        about = {
            **processes.identity_of_this_process(),
            "pid": str(process.pid),
            "process_started_ticks": ticks,
        }
        path = box(tmp_path, 0, **about)
        os.utime(path, (0, 0))
        with session_of(path) as session:
            assert session.is_growing
            assert all(each.kind != "link" for each in session.frames())
        process.kill()
        process.wait()
        with session_of(path) as session:
            assert not session.is_growing
            assert list(session.frames())[-1].kind == "link"


def test_what_two_viewers_recorded_counts_once(tmp_path):
    """Two recordings of one run, one begun later, its clock a little behind: messages are not told twice."""
    frames = made_sessions.frames(MADE)
    late = [each for each in frames if each.at > MADE.start + 20]
    for name, told in {"one": frames, "other": [later(each, 0.05) for each in late]}.items():
        writer = Writer(tmp_path / f"{name}.mcap", {"writer": name})
        for i, frame in enumerate(told):
            writer.write(frame)
            if i % 50 == 49:
                until = folded(told, frame.at)
                writer.write_keyframe(Keyframe(frame.at, keyframe.frames(until, frame.at)))
        writer.finish()
    with session_of(tmp_path / "one.mcap", tmp_path / "other.mcap") as session:
        assert list(session.frames()) == frames
        for at in (MADE.start + 10, MADE.start + 19.5, MADE.start + 45.3, session.span[1]):
            session._at = None
            found, expected = session.at(at), folded(frames, at)
            for agent, host in expected.hosts.items():
                assert found.hosts[agent].launches == host.launches
                assert found.hosts[agent].pulse == host.pulse
                told = [(each.used_bytes, each.launches) for each in expected.past_pulses[agent]]
                assert [(each.used_bytes, each.launches) for each in found.past_pulses[agent]] == told
            assert [each.text for each in found.events] == [each.text for each in expected.events]
        bins, events = session.overview.bins, session.overview.events
        assert [each.at for each in bins] == sorted(each.at for each in bins)
        assert [each.text for each in events] == [each.text for each in folded(frames, frames[-1].at).events]


def test_a_viewers_recording_beside_a_box_is_one_session(tmp_path):
    """What the box has beyond the viewer's end is there, too."""
    record(tmp_path / "viewer.mcap", MADE._replace(seconds=30))
    path = box(tmp_path, 0)
    with session_of(tmp_path / "viewer.mcap", path) as session:
        frames = made_sessions.frames(MADE)
        assert by_time(each for each in told_by(session) if each.kind != "roster") == by_time(
            each
            for each in frames
            if each.kind not in (*wire.OWN_KINDS, "roster")
            and (each.at < MADE.start + 30 or each.agent == agent_id(0))
        )
        last = frames[-1].at
        assert (
            session.at(last).hosts[agent_id(0)].launches == folded(frames, last).hosts[agent_id(0)].launches
        )


def test_a_box_shows_each_moment_as_a_viewer_would_have(tmp_path):
    """But for what only viewers know: connections, and rosters."""
    frames = [each for each in of_agents() if each.agent == agent_id(0)]
    with session_of(box(tmp_path, 0)) as session:
        for frame in frames[10::13]:
            session._at = None
            found, expected = session.at(frame.at), folded(frames, frame.at)
            for name in ("hello", "pulse", "arrays", "programs", "launches", "pulse_at"):
                one, other = (getattr(each.hosts[agent_id(0)], name) for each in (found, expected))
                if name == "arrays":
                    one, other = one.counts, other.counts
                assert one == other, f"{name} at {frame.at - MADE.start}"
            assert list(found.past_pulses[agent_id(0)])[-30:] == list(expected.past_pulses[agent_id(0)])[-30:]
