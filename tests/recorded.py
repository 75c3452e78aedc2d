"""Recordings for tests: written, read, and set beside what was folded without them."""

from __future__ import annotations

from contextlib import contextmanager

from jaxtop.model import Cluster, arrays, devices, keyframe, programs
from jaxtop.recording import Keyframe, Limits, Recording, RecordingWriter, Writer
from jaxtop.sources.recorder import SessionRecorder
from jaxtop.sources.session import Session
from tests import made_sessions

ABOUT = {"tape": "t1", "recorder": "test"}
NO_LIMITS = Limits()


def written(path, frames, keyframe_every=0, *, is_indexed=False):
    """A file with these frames, a chunk for every few of them, as a writer that was killed leaves it."""
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
    return Keyframe(at, keyframe.messages(cluster, at), {"bins": [], "events": []})


def read(path):
    with Recording(path) as recording:
        return [frame for _, frame in recording.frames()]


@contextmanager
def taped(path, limits=NO_LIMITS, about=ABOUT, **more):
    """A tape that is running."""
    tape = RecordingWriter(path, about, limits, **more)
    tape.start()
    try:
        yield tape
    finally:
        tape.finish(60)


def record(path, made, flush_every=1.5, **more):
    """A session through the real tape; flushed as often as a live one, by the time of the session."""
    cluster = Cluster()
    with taped(path, **more) as tape:
        taping, due = SessionRecorder(tape), 0.0
        for batch in made_sessions.batches(made):
            for frame in batch:
                cluster.feed(frame)
            taping.take(batch, cluster, batch[-1].at)
            if batch[-1].at >= due:
                tape.sync(60)
                due = batch[-1].at + flush_every
        taping.finish(cluster)
        assert tape.failure is None
    return tape


def folded(frames, until):
    """What a viewer knows that has watched from the beginning to this moment."""
    cluster = Cluster()
    for frame in frames:
        if frame.at > until:
            break
        cluster.feed(frame)
    return cluster


@contextmanager
def session_of(*paths):
    session = Session(paths)
    try:
        yield session
    finally:
        session.close()


def views(cluster, now):
    return devices(cluster, now), arrays(cluster), programs(cluster)


def assert_equal(one, other, at):
    """Field by field: the first that differs is named."""
    for name in ("unmet", "events", "episodes"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.hosts.keys() == other.hosts.keys()
    for agent, host in one.hosts.items():
        for name in type(host).__dataclass_fields__:
            assert getattr(host, name) == getattr(other.hosts[agent], name), f"{name} of {agent}"
    assert one.history == other.history
    assert views(one, at) == views(other, at)
