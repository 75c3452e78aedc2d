"""What parts of the agent may take: how long each waits after its turns, and how old what it says may be."""

from __future__ import annotations

import math
import os
import time
from types import SimpleNamespace

import pytest

from jaxtop.base.clock import now_ms
from jaxtop_agent import jaxprivate
from jaxtop_agent.collectors import memory
from jaxtop_agent.core import budget, settings
from jaxtop_agent.core.board import Board
from jaxtop_agent.core.budget import WARM_UP_PAUSE, WARM_UP_TURNS, CpuShare, Throttle
from jaxtop_agent.core.threads import WakeEvent
from jaxtop_agent.service.identity import identify
from jaxtop_agent.service.sampler import IDLE_INTERVAL, Sampler


def paced(share: CpuShare, *costs: float) -> list[float]:
    throttle = Throttle(share)
    for _ in range(WARM_UP_TURNS):
        throttle.pause_after(0.0)
    return [throttle.pause_after(cost) for cost in costs]


def test_a_part_waits_until_its_share_is_earned():
    assert paced(CpuShare(0.001), 0.002, 0.002, 0.002)[-1] == pytest.approx(2.0)


def test_one_turn_that_was_dear_by_chance_changes_nothing():
    assert paced(CpuShare(0.001), 0.002, 0.002, 0.3, 0.002)[2:] == [pytest.approx(2.0)] * 2


def test_what_says_no_age_waits_no_longer_than_it_may():
    assert paced(CpuShare(0.001, 10.0), 0.5, 0.5, 0.5)[-1] == 10.0


def test_the_first_turns_are_close_together_while_they_are_cheap():
    for cost, close in ((0.02, WARM_UP_TURNS), (0.06, 2), (0.5, 1)):
        throttle = Throttle(CpuShare(0.001))
        pauses = [throttle.pause_after(cost) for _ in range(WARM_UP_TURNS + 1)]
        assert pauses == [WARM_UP_PAUSE] * close + [pytest.approx(cost / 0.001)] * (WARM_UP_TURNS + 1 - close)


def test_a_part_may_use_its_first_seconds_again_once_it_has_earned_them():
    throttle = Throttle(CpuShare(0.002, at_first=0.25))
    assert [throttle.pause_after(0.1, elapsed=1) for _ in range(3)] == [0.0, 0.0, WARM_UP_PAUSE]
    assert throttle.pause_after(0.01, elapsed=20) > 0  # 0.04 s of these earned, 0.06 s too much used
    assert throttle.pause_after(0.0001, elapsed=60) == 0.0
    assert throttle.pause_after(0.2, elapsed=1e6) == 0.0
    assert throttle.pause_after(0.2, elapsed=0) > 0  # they are never more than at first


class Reading:
    """A collector that has read everything after some turns."""

    name = "reading"
    share = CpuShare(0.002, at_first=60)
    also_unwatched = False
    turns = 0

    def collect(self, board, _client) -> bool:
        self.turns += 1
        if self.turns == 5:
            board.stopping = True
            board.wakeups.sampler.set()
        return not board.stopping

    def forget(self, board) -> None:
        """Nothing is on it."""


def test_what_has_more_to_read_is_not_asked_once_an_interval_only():
    board, reading = Board(identify("test"), interval=3600), Reading()
    board.publisher.viewers, board.sampler.topology = 1, SimpleNamespace()
    Sampler(board, [reading]).run()
    assert reading.turns == 5


def test_without_viewers_nothing_is_asked_more_often_though_there_was_more_to_read():
    board, reading = Board(identify("test"), interval=3600), Reading()
    board.sampler.topology = SimpleNamespace()
    sampler = Sampler(board, [reading])
    sampler._tick(watched=True)
    assert sampler._until_next(watched=True) < 1 <= IDLE_INTERVAL == sampler._until_next(watched=False)


class Figures:
    """A collector that takes as long as it is told to."""

    name = "figures"
    share = budget.COLLECTOR
    also_unwatched = False

    def __init__(self) -> None:
        self.cost = 0.0

    def collect(self, _board, _client) -> None:
        end = time.thread_time() + self.cost
        while time.thread_time() < end:
            pass

    def forget(self, board) -> None:
        """Nothing is on it."""


def test_figures_are_as_old_as_the_oldest_of_them():
    dear, cheap, board = Figures(), Figures(), Board(identify("test"), interval=0.001)
    dear.cost = 0.01
    sampler = Sampler(board, [dear, cheap])
    sampler._tick(watched=True)
    first = board.sampler.sampled_ms
    assert abs(now_ms() - first) < 1000
    for _ in range(3):
        time.sleep(0.01)
        sampler._tick(watched=True)
    assert board.sampler.sampled_ms == first


def test_what_an_allocator_said_is_forgotten_with_its_backend(monkeypatch):
    board, collector = Board(identify("test")), memory.AllocatorMemory()
    stats = {"bytes_in_use": 7}
    monkeypatch.setattr(jaxprivate, "local_devices", lambda client: [client])
    monkeypatch.setattr(jaxprivate, "memory_stats", lambda device: device.stats)
    collector.collect(board, SimpleNamespace(stats=stats))
    assert (board.sampler.devices.used_bytes, board.sampler.memory_source) == ((7,), "allocator")
    collector.collect(board, SimpleNamespace(stats=None))
    assert (board.sampler.devices.used_bytes, board.sampler.memory_source) == (None, None)


@pytest.mark.parametrize("interval", [math.nan, math.inf, -math.inf])
def test_an_interval_that_is_no_number_is_as_good_as_none(interval):
    assert settings.bounded(interval) == settings.USUAL_INTERVAL


def test_a_closed_bell_touches_no_file_that_has_its_descriptor_now(tmp_path):
    with (tmp_path / "of the script").open("wb") as file:
        wakeup = WakeEvent()
        before = wakeup.fd
        wakeup.close()
        os.dup2(file.fileno(), before)
    wakeup.set()
    wakeup.clear()
    wakeup.close()
    assert os.fstat(before).st_size == 0
    os.close(before)
