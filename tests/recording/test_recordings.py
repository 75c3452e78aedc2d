"""Recordings: what was written is read, wherever the file ends and whatever became of its bytes."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from jaxtop import wire
from jaxtop.base.units import size
from jaxtop.cli.live.recorder import AppRecorder
from jaxtop.model import Cluster, array_views, growers
from jaxtop.recording import Recording, compact
from jaxtop.wire import LinkState
from jaxtop.wire.bounds import to_ns
from tests import builders
from tests.cases import thorough
from tests.made import sessions as made_sessions
from tests.made.sessions import Made
from tests.played.recordings import ABOUT, assert_equal, read, record, record_batches, session_of, written
from tests.support import SOAK

# What was written is read


@pytest.mark.parametrize("is_compacted", [False, True])
def test_frames_come_back_as_they_were_given(tmp_path, is_compacted):
    """Times to the last bit, order, numbers and raw bytes; before and after the file is written anew."""
    frames = made_sessions.frames(Made(seconds=40))
    path = tmp_path / "a.mcap"
    written(path, frames, keyframe_every=50).finish()
    if is_compacted:
        compact(path)
    assert read(path) == frames
    with Recording(path) as recording:
        assert recording.notes == ()
        assert recording.about == {**ABOUT, "version": str(wire.VERSION)}
        assert recording.span == (frames[0].at, frames[-1].at)
        assert len(recording.index.keyframes) == len(frames) // 50


def test_a_replay_begins_once_those_that_were_there_are_connected(tmp_path):
    """Who came later, or never spoke, is not waited for."""
    frames = [
        builders.frame(builders.agent_id(i), wire.Link(LinkState.CONNECTING, f"10.0.0.{i}:7411"), sequence=0)
        for i in (0, 1)
    ]
    for i, seconds in ((0, 0.2), (1, 0.7), (0, 1.2), (1, 1.7), (0, 9.0)):
        at = builders.NOW + seconds
        frames.append(builders.frame(builders.agent_id(i), builders.hello(i), at))
        frames.append(builders.frame(builders.agent_id(i), builders.pulse(i, at), at))
    late = [
        *frames[:-4],
        builders.frame(
            builders.agent_id(2), wire.Link(LinkState.CONNECTING, "10.0.0.2:7411"), builders.NOW + 5, 0
        ),
    ]
    for name, told, start in (
        ("a", frames, 0.7),
        ("b", late, 0.7),
        ("c", [frames[0], *frames[2:4], *frames[-2:]], 0.2),
    ):
        path = tmp_path / f"{name}.mcap"
        written(path, told).finish()
        with session_of(path) as session:
            assert session.start == pytest.approx(builders.NOW + start, abs=1e-3)
    mute = [frames[0], builders.frame(builders.agent_id(0), builders.hello(0), builders.NOW + 1)]
    written(tmp_path / "d.mcap", mute).finish()
    with session_of(tmp_path / "d.mcap") as session:
        assert session.start == session.span[0]


def test_frames_come_back_through_a_recording(tmp_path):
    made = Made(seconds=40)
    record(tmp_path / "a.mcap", made)
    assert read(tmp_path / "a.mcap") == made_sessions.frames(made)
    assert [each.name for each in tmp_path.iterdir()] == ["a.mcap"]


def test_odd_times_and_bytes_come_back_exactly(tmp_path):
    """Also messages that this jaxtop does not know, and bytes that are no message at all."""
    dice = random.Random(5)
    at = 1_799_999_999.999_999_9
    frames = []
    for i in range(2_000):
        at += dice.choice((0.0, 2.4e-7, dice.random()))
        raw = dice.randbytes(dice.randrange(40))
        frames.append(wire.Frame(at, f"agent-{i % 3}", ("pulse", "weather")[i % 2], i << 22, raw))
    path = tmp_path / "a.mcap"
    written(path, frames).finish()
    compact(path)
    expected = [each._replace(sequence=each.sequence % (1 << 32)) for each in frames]
    assert read(path) == expected


def test_frames_of_any_stretch_are_those_of_that_stretch(tmp_path):
    frames = made_sessions.frames(Made(seconds=60))
    path = tmp_path / "a.mcap"
    written(path, frames, keyframe_every=40).finish()
    compact(path)
    dice = random.Random(1)
    with Recording(path) as recording:
        for _ in range(100):
            after, until = sorted(dice.uniform(frames[0].at - 1, frames[-1].at + 1) for _ in range(2))
            found = [frame for _, frame in recording.frames(to_ns(after), to_ns(until))]
            assert found == [frame for frame in frames if after < frame.at <= until]


# Any moment


def made_growing(seconds=200):
    """One process whose list of losses becomes longer; each pulse is a keyframe's worth of bytes."""
    agent, start = builders.agent_id(0), builders.NOW
    told = [
        builders.frame(agent, builders.hello(0), start),
        builders.frame(agent, builders.census(start), start + 0.1),
    ]
    for second in range(1, seconds):
        at = start + second
        told.append(builders.frame(agent, builders.pulse(0, at, launches=second), at, second))
        if second % 9 == 0:
            at_ms, number = int(at * 1000), second // 9
            counts = ((len(builders.STATE), 3 + number),)
            more = ((len(builders.STATE) + 4, wire.ArrayGroup((9,), "int8", 3, 9, 9)),) if number == 5 else ()
            change = wire.ArraysChange(at_ms, 1, 1000 + number, counts, more)
            told.append(builders.frame(agent, change, at, number))
    return told


@pytest.mark.long
@pytest.mark.parametrize("made", [Made(), thorough(Made(hosts=5, devices=4, seconds=300, arrays=20))])
def test_any_moment_is_as_if_all_had_been_watched_up_to_it(tmp_path, made):
    frames = made_sessions.frames(made)
    record(tmp_path / "a.mcap", made)
    with session_of(tmp_path / "a.mcap") as session:
        assert session._tracks[0].recordings[0].index.keyframes
        dice = random.Random(3)
        for at in [
            frames[0].at,
            frames[-1].at,
            *(dice.uniform(*session.span) for _ in range(40 if SOAK else 6)),
        ]:
            assert_equal(session.at(at), builders.folded(frames, at), at)


@pytest.mark.parametrize(("count", "farthest"), [(20, 32), (5_000, 90)])
def test_with_few_hosts_a_keyframe_is_near_unless_it_would_be_large(tmp_path, count, farthest):
    """A jump checks the rules of findings for each two seconds since the keyframe."""
    record(tmp_path / "a.mcap", Made(hosts=8, seconds=90, arrays=count, has_trouble=False))
    with Recording(tmp_path / "a.mcap") as recording:
        times = [each.at / 1e9 for each in recording.index.keyframes]
        assert farthest - 5 < max(later - earlier for earlier, later in pairwise(times)) <= farthest


def test_what_grows_is_known_at_any_moment(tmp_path):
    """As soon as a moment is opened, not minutes of replay later."""
    path = tmp_path / "a.mcap"
    cluster, grown = Cluster(), made_growing()
    record_batches(path, ([frame] for frame in grown), cluster)
    assert growers(cluster)
    with session_of(path) as session:
        for at in (grown[-1].at, grown[len(grown) * 2 // 3].at):
            session._at = None
            now = session.at(at)
            assert growers(now) == growers(builders.folded(grown, at)) != []
            assert array_views(now) == array_views(builders.folded(grown, at))


def test_playing_on_is_as_jumping_there(tmp_path):
    made = Made(hosts=3, seconds=100)
    record(tmp_path / "a.mcap", made)
    with session_of(tmp_path / "a.mcap") as played, session_of(tmp_path / "a.mcap") as jumped:
        at, end = played.span
        while at < end:
            jumped._at = None
            assert_equal(played.at(at), jumped.at(at), at)
            at += 2.5


def test_the_app_reports_the_size_of_the_finished_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorder, cluster, frames = AppRecorder(), Cluster(), builders.well()
    for each in frames:
        cluster.feed(each)
    recorder.take(frames, cluster, builders.NOW)
    assert recorder.toggle().startswith("recording to ")
    recorder.take(frames, cluster, builders.NOW)
    assert recorder.toggle().startswith("finishing ")
    recorder.close()
    (path,) = tmp_path.glob("*.mcap")
    assert recorder.ended() == [f"recorded {size(path.stat().st_size)} to {path}"]
    assert recorder.ended() == []
