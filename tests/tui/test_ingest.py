"""What arrives is taken in by slices: in order, whole, and with room for keys between."""

from __future__ import annotations

import time
from itertools import count, pairwise
from typing import NamedTuple

from textual import _time

from jaxtop.tui import ingest
from jaxtop.tui.app import GAP_SECONDS
from jaxtop.tui.ingest import FrameIngest
from tests.builders import frame, pulse, well
from tests.stage import Feed, play


class Arrived(NamedTuple):
    """A frame by its number; five come at once."""

    number: int

    @property
    def at(self) -> float:
        return self.number // 5


class Slow:
    """A cluster that takes ten milliseconds for a frame."""

    def __init__(self) -> None:
        self.fed: list[Arrived] = []

    def feed(self, frame: Arrived) -> None:
        time.sleep(0.01)
        self.fed.append(frame)


class Many(Feed):
    def __init__(self, *frames) -> None:
        super().__init__(*frames)
        self.kept: list[list[Arrived]] = []

    def folded(self, frames, cluster) -> None:
        assert cluster.fed[len(cluster.fed) - len(frames) :] == list(frames)
        self.kept.append(list(frames))


def test_many_frames_are_taken_in_by_slices_and_in_order():
    cluster, feed = Slow(), Many(*map(Arrived, range(20)))
    taking = FrameIngest(feed, cluster)
    taking.fetch()
    assert not taking.take() and taking.behind_at is not None
    feed.frames = [Arrived(20)]
    taking.fetch()
    while not taking.take():
        pass
    assert taking.behind_at is None
    assert cluster.fed == list(map(Arrived, range(21)))
    assert len(feed.kept) > 2 and [frame for kept in feed.kept for frame in kept] == cluster.fed
    assert all(before[-1].at < after[0].at for before, after in pairwise(feed.kept))


def test_what_cannot_be_taken_in_for_long_waits_where_it_is_bounded(monkeypatch):
    monkeypatch.setattr(ingest, "MAX_WAITING", 3)
    feed = Many(*map(Arrived, range(5)))
    taking = FrameIngest(feed, Slow())
    taking.fetch()
    feed.frames = [Arrived(5)]
    taking.fetch()
    assert feed.frames == [Arrived(5)]


def test_keepers_are_called_also_if_nothing_arrived():
    feed = Many()
    assert FrameIngest(feed, Slow()).take() and feed.kept == [[]]


def test_a_key_is_answered_while_much_is_taken_in(monkeypatch):
    monkeypatch.setattr(ingest, "SLICE_SECONDS", 0)  # one frame at a time

    async def act(stage):
        stage.feed.frames = [frame("0" * 16, pulse(0, launches=30 + i), sequence=3 + i) for i in range(400)]
        stage.app._tick()
        await stage.pilot.press("3")
        assert stage.app._is_folding and stage.screen_shown == "screen-hosts"
        await stage.paint()
        assert stage.app.moment.cluster.hosts["0" * 16].launches == {"train_step": 429}

    play(act, *well())


def test_taking_in_goes_on_where_the_machine_is_slow(monkeypatch):
    """More time than the pause between two slices passes whenever Textual's timers read their clock."""
    monkeypatch.setattr(ingest, "SLICE_SECONDS", 0)

    async def act(stage):
        times = count(_time.get_time(), 2 * GAP_SECONDS)
        monkeypatch.setattr(_time, "get_time", lambda: next(times))
        stage.feed.frames = [frame("0" * 16, pulse(0, launches=30 + i), sequence=3 + i) for i in range(5)]
        await stage.paint()
        assert stage.app.moment.cluster.hosts["0" * 16].launches == {"train_step": 34}

    play(act, *well())
