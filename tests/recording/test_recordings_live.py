"""A real run, recorded while a host is stopped and another is killed: its replay is what was seen."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import time

import pytest

from jaxtop.model import Cluster, state_of
from jaxtop.recording import RecordingWriter
from jaxtop.sources import Session, SessionRecorder
from tests.played.recordings import assert_equal
from tests.support import Viewer, loopback_address, training

pytestmark = [pytest.mark.jax, pytest.mark.newest]


class Recorder(Viewer):
    """A viewer that records, and remembers what it knew after every frame."""

    def __init__(self, path) -> None:
        super().__init__()
        writer = RecordingWriter(path, {"writer": "live"})
        writer.start()
        self.recording = SessionRecorder(writer)
        self.frames = []
        self.known = []

    def look(self, seconds: float = 0.1) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            frames = self.source.poll(left)
            for frame in frames:
                self.cluster.feed(frame)
                self.frames.append(frame)
                self.known.append(self.cluster.frozen())
            self.recording.take(frames, self.cluster, time.time())


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """The recording of a run with troubles, and who recorded it."""
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HOME", str(folder / "home"))
        with training(folder / "home", hosts=2, devices=2, JAXTOP_BIND=loopback_address()) as run:
            recorder = Recorder(folder / "run.mcap")
            try:
                recorder.until_state({0: "live", 1: "live"})
                recorder.look(2)
                os.kill(run.processes[0].pid, signal.SIGSTOP)
                try:
                    recorder.until_state({0: "stopped"})
                finally:
                    os.kill(run.processes[0].pid, signal.SIGCONT)
                recorder.until_state({0: "live"})
                recorder.look(2)
                os.kill(run.processes[1].pid, signal.SIGKILL)
                recorder.until_state({1: "died"})
                recorder.look(2)
                recorder.recording.finish(recorder.cluster)
            finally:
                recorder.source.close()
    assert recorder.recording.writer.failure is None
    return folder / "run.mcap", recorder


@pytest.fixture
def session(seen):
    opened = Session([seen[0]])
    yield opened
    opened.close()


def test_the_model_folded_from_the_recording_is_the_one_seen_live_at_every_frame(seen, session):
    _, recorder = seen
    replayed, count = Cluster(), 0
    for frame, live, again in zip(recorder.frames, recorder.known, session.frames(), strict=True):
        assert again == frame
        replayed.feed(again)
        count += 1
        for field in dataclasses.fields(Cluster):  # what is shared between equal meshes is no part of it
            if field.compare and field.name != "meshes":
                same = getattr(replayed, field.name) == getattr(live, field.name)
                assert same, (
                    f"{field.name} after frame {count}: {frame.kind} of {frame.agent or 'the viewer'}"
                )
        for agent, host in live.hosts.items():
            assert state_of(replayed.hosts[agent], frame.at) is state_of(host, frame.at)
    assert count > 30 and session.notes == ()


def test_the_recording_holds_what_became_of_the_hosts(seen, session):
    _, recorder = seen
    links = {(frame.agent, frame.kind) for frame in recorder.frames if frame.kind == "link"}
    assert len(links) >= 2
    end = session.span[1]
    last = session.at(end)
    states = {host.process_index: str(state_of(host, end)) for host in last.hosts.values()}
    assert states[1] == "died"
    assert {"stopped", "back", "died"} <= {event.kind for event in last.events}
    stopped = next(event for event in last.events if event.kind == "stopped")
    session._at = None
    then = session.at(stopped.at)
    assert state_of(then.hosts[stopped.agent], stopped.at) == "stopped"


def test_any_moment_opens_as_it_was_seen(seen, session):
    """By way of keyframes, back and forth."""
    _, recorder = seen
    dice = random.Random(8)
    for i in [0, len(recorder.frames) - 1, *(dice.randrange(len(recorder.frames)) for _ in range(15))]:
        at = recorder.frames[i].at
        last = max(j for j, frame in enumerate(recorder.frames) if frame.at == at)
        assert_equal(session.at(at), recorder.known[last], at)
