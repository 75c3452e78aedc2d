"""Recordings for tests: write them, read them, and compare them with a direct fold."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import groupby

from jaxtop.model import Cluster, array_views, device_views, keyframe, program_views
from jaxtop.recording import Keyframe, Recording, RecordingLimits, RecordingWriter, Writer
from jaxtop.sources.recorder import SessionRecorder
from jaxtop.sources.session import Session
from tests import patience
from tests.made import sessions as made_sessions

ABOUT = {"writer": "w1", "recorder": "test"}
NO_LIMITS = RecordingLimits()


def written(path, frames, keyframe_every=0, *, is_indexed=False):
    """Write a file with these frames and a chunk for every few of them, as a killed writer leaves it."""
    writer = Writer(path, ABOUT, is_indexed=is_indexed)
    cluster = Cluster()
    for i, frame in enumerate(frames):
        writer.write(frame)
        cluster.feed(frame)
        if keyframe_every and i % keyframe_every == keyframe_every - 1:
            writer.write_keyframe(keyframe_of(cluster, frame.at))
        elif i % 5 == 4:
            writer.flush()
    writer.flush()
    return writer


def keyframe_of(cluster, at):
    return Keyframe(at, keyframe.frames(cluster, at), {"bins": [], "events": []})


def read(path):
    with Recording(path) as recording:
        return [frame for _, frame in recording.frames()]


@contextmanager
def writing(path, limits=NO_LIMITS, about=ABOUT, **more):
    """Start a recording writer, and finish it afterwards."""
    writer = RecordingWriter(path, about, limits, **more)
    writer.start()
    try:
        yield writer
    finally:
        writer.finish(patience.left())


def record(path, made, flush_every=1.5, together=1, **more):
    """Record a session with the real writer, flushed as often as a live one in the session's time."""
    return record_batches(path, made_sessions.batches(made, together), flush_every=flush_every, **more)


def record_batches(path, batches, cluster=None, *, flush_every=1.5, then=None, **more):
    """Record these batches of frames as a viewer does that knows this cluster; call `then` after each."""
    cluster = Cluster() if cluster is None else cluster
    with writing(path, **more) as writer:
        recorder, due = SessionRecorder(writer), 0.0
        for batch in batches:
            for frame in batch:
                cluster.feed(frame)
            at = batch[-1].at
            recorder.take(batch, cluster, at)
            if at >= due:
                writer.sync(60)
                due = at + flush_every
            if then is not None:
                then(cluster, at)
        recorder.finish(cluster)
        assert writer.failure is None
    return writer


def by_time(frames):
    """Yield lists of the frames of one time."""
    for _, batch in groupby(frames, key=lambda each: each.at):
        yield [*batch]


@contextmanager
def session_of(*paths):
    session = Session(paths)
    try:
        yield session
    finally:
        session.close()


def views(cluster, now):
    return device_views(cluster, now), array_views(cluster), program_views(cluster, now)


def assert_equal(one, other, at):
    """Compare two clusters field by field; the failure names the first difference."""
    for name in ("unmet", "events", "stalls"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.hosts.keys() == other.hosts.keys()
    for agent, host in one.hosts.items():
        for name in type(host).__dataclass_fields__:
            assert getattr(host, name) == getattr(other.hosts[agent], name), f"{name} of {agent}"
    assert one.past_pulses == other.past_pulses
    assert views(one, at) == views(other, at)


def a_run(path):
    """Record a short run of two processes; return the path."""
    record(path, made_sessions.Made(hosts=2, devices=2, seconds=20))
    return path


def recorded(path, frames):
    """Write these frames by time with the real writer; return the path."""
    record_batches(path, by_time(sorted(frames, key=lambda each: each.at)))
    return path
