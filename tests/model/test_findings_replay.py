"""Live and replay yield the same findings at the same moments, however a moment is reached."""

from __future__ import annotations

import math
import random
from dataclasses import replace as replace_fields

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import Cluster, reported_findings
from jaxtop.model.finding import FindingCost
from jaxtop.recording import Recording
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW
from tests.made import sessions as made_sessions
from tests.made.sessions import Made
from tests.played.recordings import by_time, record_batches, session_of
from tests.staged.findings import Staged


def troubled():
    """Minutes in which much goes wrong, and most of it ends."""
    run = Staged(3, jaxlib="0.10.2")
    dice = random.Random(5)

    def pulse(index, at, step):
        second = at - NOW
        loss = 2.0 + dice.gauss(0, 0.1)
        if 90 <= second < 110:
            loss = 60.0
        if 130 <= second < 140 and index == 1:
            loss = math.nan
        if index == 2 and second >= 150:
            return None
        told = builders.pulse(index, at, launches=step)
        if 160 <= second < 185:
            since = NOW + 160
            told = replace(told, stall=wire.Stall("train_step", int(since * 1000), 100), launches={})
        return replace(told, step=wire.Step(step, step, {"loss": loss}))

    run.train(40, pulse)
    run.tell(1, builders.hello(1, 3, jaxlib="0.9.0", sources={"memory": "off: KeyError: 'x'"}))
    run.train(40, pulse)
    run.tell(1, builders.hello(1, 3, jaxlib="0.10.2", clock_offset_ms=-4000))
    run.train(70, pulse)
    run.tell(2, wire.Link(LinkState.STOPPED, "10.0.0.2:7411"))
    run.train(40, pulse)
    run.tell(2, wire.Link(LinkState.CLOSED, "10.0.0.2:7411"))
    run.train(30, pulse)
    return run.frames


SESSIONS = {
    "troubled": troubled,
    "of four hosts": lambda: made_sessions.frames(Made(hosts=4, devices=4, seconds=90)),
}


def recorded(path, frames):
    """Record these frames as a viewer does, and return what it showed after each moment."""
    shown = []

    def note(cluster, at):
        shown.append((at, reported_findings(cluster), _events(cluster), dict(cluster.findings.unchecked)))

    record_batches(path, by_time(frames), then=note)
    return shown


def _events(cluster):
    return [each for each in cluster.events if each.kind == "finding"]


@pytest.mark.parametrize("name", SESSIONS)
def test_a_replay_shows_at_each_moment_what_was_shown_live(tmp_path, monkeypatch, name):
    """Played through, and after jumps in both directions, to moments between keyframes.

    After a jump fewer windows of the profiler are at hand, so their figures differ a little.
    """
    monkeypatch.setattr("jaxtop.sources.recorder.FRAMES_BETWEEN", 20)
    path = tmp_path / "a.mcap"
    shown = recorded(path, SESSIONS[name]())
    rules = {each.rule for _, found, *_ in shown for each in found}
    assert len(rules) >= 2
    with Recording(path) as recording:
        assert len(recording.index.keyframes) >= 5
    with session_of(path) as session:
        for at, found, events, unchecked in shown:
            cluster = session.at(at)
            assert (reported_findings(cluster), _events(cluster)) == (found, events), at - shown[0][0]
            assert cluster.findings.unchecked == unchecked
        jumps = random.Random(7).sample(shown, 40)
        for at, found, events, unchecked in jumps:
            cluster = session.at(at)
            trim = list if name == "troubled" else _without_figures  # the other has windows
            assert (trim(reported_findings(cluster)), _events(cluster)) == (trim(found), events), (
                at - shown[0][0]
            )
            if name == "troubled":
                # Keyframes leave out the history of the memory of processes.
                differ = set(cluster.findings.unchecked.items()) ^ set(unchecked.items())
                assert {rule for (_, rule), _ in differ} <= {"host_memory_growth"}, at - shown[0][0]


def _without_figures(found):
    return [replace_fields(each, text="", cost=FindingCost(), evidence=()) for each in found]


def test_that_session_has_much_to_find():
    shown = set()
    cluster = Cluster()
    for each in troubled():
        cluster.feed(each)
        shown |= {finding.rule for finding in reported_findings(cluster)}
    assert shown >= {"versions_differ", "parts_off", "clock_offset", "bad_loss", "host_lost"}
