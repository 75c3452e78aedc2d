"""When the agent asks where the run hangs, and how the answers reach viewers."""

from __future__ import annotations

import random
import time
from types import SimpleNamespace

import pytest

from jaxtop import wire
from jaxtop.model import keyframe
from jaxtop.store.last_frames import ORDER
from jaxtop_agent.core.board import Board, Topology
from jaxtop_agent.core.threads import Worker
from jaxtop_agent.core.waiting import wait
from jaxtop_agent.hardware.libraries.thread import Libraries
from jaxtop_agent.service.identity import identify
from jaxtop_agent.stalls.watch import LONG_LULL, Stalls
from tests import patience
from tests.builders import folded
from tests.staged.hangs import devices, stalled
from tests.standin.tpu import core, serving, status
from tests.support import eventually


class TestTheAgent:
    @pytest.fixture
    def board(self):
        board = Board(identify("test"))
        yield board
        board.stop()
        for wakeup in board.wakeups:
            wakeup.close()

    def test_a_thread_of_its_own_asks_when_it_is_stuck(self, board, monkeypatch):
        with serving() as service:
            monkeypatch.setenv("TPU_RUNTIME_METRICS_PORTS", str(service.port))
            service.status = status(core(0), core(1))
            worker = Worker("libraries", Libraries(board).run, pytest.fail)
            worker.start()
            board.sampler.topology, board.publisher.viewers = (
                Topology(0, 1, "tpu", devices(0, 2, "tpu"), None),
                1,
            )
            board.publisher.is_stuck = True
            board.wakeups.libraries.set()
            found = eventually(board.outbox.take, every=0.02)
            board.stop()
            assert worker.join(patience.left())
        assert [each.device for each in found.cores] == [0, 1]

    def test_a_long_lull_makes_it_stuck_and_wakes_that_thread(self, board):
        board.sources["launches"] = "on"
        board.sampler.moved = wire.IoTotals(read=7)
        stalls = Stalls(board, SimpleNamespace(
            launches=dict,
            raised=None, compiling=tuple, compiled_at=float, last_launch=lambda: (0.0, "")
        ), SimpleNamespace(calls=0, last_at=0.0), frozenset)  # fmt: skip
        began = time.monotonic()
        seen = []
        for after in range(1, int(LONG_LULL) + 3):
            stalls.check_progress(began + after)
            seen.append(board.publisher.is_stuck)
        assert seen == [after >= LONG_LULL for after in range(1, int(LONG_LULL) + 3)]
        assert stalls.lull.moved.read == 7
        assert wait(board.wakeups.libraries, 0)

    def test_answers_of_libraries_are_part_of_the_state(self):
        """Of keyframes, and of what a relay stores."""
        run = stalled(random.Random(1), 1)
        nccl = wire.Nccl(5, "2.29.2", 1, 3, (wire.NcclCommunicator("1", 4, "AllReduce"),))
        cores = wire.TpuCores(6, 1, (wire.TpuCore(1, pc=4),))
        run.say(0, nccl, cores)
        copy = folded(keyframe.frames(run.cluster, run.now))
        assert (copy.hosts["r1-0"].nccl, copy.hosts["r1-0"].cores) == (nccl, cores)
        assert {wire.kind_of(nccl), wire.kind_of(cores)} <= set(ORDER)
