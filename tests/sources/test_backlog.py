"""What the app does not take in time gives way within bounds, and nothing stays wrong for it."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.cli.live.source_thread import SourceThread
from jaxtop.model import Cluster
from jaxtop.sources import backlog
from jaxtop.sources.backlog import Backlog
from tests.builders import frame
from tests.stories import census, hello, link, pulse
from tests.support import eventually

GROUP = wire.ArrayGroup((8,), "float32", 0, 32, 32, "w", "f")


@pytest.fixture(autouse=True)
def tight(monkeypatch):
    monkeypatch.setattr(backlog, "MOST_FRAMES", 20)


class Agent:
    """A source with one agent, whose census changes with every poll; it tells all when it is asked."""

    def __init__(self) -> None:
        self.rejected: Counter[str] = Counter()
        self.notes: list[str] = []
        self.count = 0
        self.asked = 0
        self.rests = threading.Event()
        self._answers: list[wire.Frame] = []

    def poll(self, _: float) -> list[wire.Frame]:
        if self._answers:
            answers, self._answers = self._answers, []
            return answers
        if self.rests.wait(0.001):
            return []
        self.count += 1
        if self.count == 1:
            return [frame("r1-0", hello(0)), frame("r1-0", census(GROUP))]
        change = wire.ArraysChange(self.count, 0, self.count - 1, counts=((0, self.count),))
        return [frame("r1-0", change, sequence=self.count)]

    def request(self, _agent, request, done) -> None:
        assert request.what == "state"
        self.asked += 1
        whole = replace(census(GROUP, counts=(self.count,)), number=self.count - 1)
        self._answers.append(frame("r1-0", whole))
        done(wire.Reply("state"))

    def close(self) -> None:
        pass


def test_a_census_is_right_again_after_frames_gave_way():
    """A change that was lost must not leave all later ones without effect."""
    agent, cluster = Agent(), Cluster()
    follower = SourceThread(lambda: agent)
    follower.start()
    try:
        eventually(lambda: agent.count > 200, every=0.001)
        agent.rests.set()

        def is_right() -> bool:
            for each in follower.drain():
                cluster.feed(each)
            return cluster.hosts["r1-0"].arrays.counts == (agent.count,)

        eventually(is_right, every=0.01)
    finally:
        follower.stop()
    assert agent.asked > 0 and sum(follower.rejected().values()) > 100


def test_the_queue_is_bounded_and_drops_only_what_is_sent_again(monkeypatch):
    queue = Backlog()
    states = ("connecting", "up", "silent", "up", "closed")
    for state in states:
        queue.put([frame("r1-0", link(state), sequence=wire.LOCAL_SEQUENCE), frame("r1-0", pulse())])
    queue.put([frame("r1-0", wire.Bye(0, "ended"))])
    for _ in range(50):
        queue.put([frame("r1-1", pulse()) for _ in range(5)])
    assert queue.lost(10) == []  # it is no time to ask for more
    taken = queue.take()
    assert len(taken) <= 20 and queue.dropped >= 230
    assert [wire.decode(each.kind, each.raw).state for each in taken if each.kind == "link"] == ["closed"]
    assert [each.kind for each in taken if each.agent == "r1-0"] == ["link", "bye"]
    assert queue.lost(1) == ["r1-0"] and queue.lost(10) == ["r1-1"] and queue.lost(10) == []
    monkeypatch.setattr(backlog, "MOST_BYTES", 10_000)
    queue = Backlog()
    for _ in range(15):
        queue.put([frame("r1-1", wire.Event(0, "info", "x", "y" * 2_000))])
    assert sum(len(each.raw) for each in queue.take()) <= 10_000
