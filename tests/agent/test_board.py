"""The agent's board, each group of whose fields has one writer, and the duties of its publisher."""

from __future__ import annotations

import ast
import math
import time
from pathlib import Path

import jaxtop_agent
from jaxtop_agent.core.board import Board, WakeEvents
from jaxtop_agent.core.waiting import wait
from jaxtop_agent.service.identity import identify
from jaxtop_agent.service.publisher import Duty

AGENT = Path(jaxtop_agent.__file__).parent

# The code of each thread that may assign to its groups, as files or folders of the agent.
SAMPLER = ("collectors/", "programs/", "service/sampler.py")
PUBLISHER = ("service/publisher.py", "service/answers.py", "stalls/watch.py", "blackbox.py")
WRITERS = {
    "sampler": SAMPLER,
    "programs": SAMPLER,
    "compiles": ("hooks/compiles.py",),
    "registrar": ("service/registrar.py", "service/family_peers.py", "profiler/offset.py"),
    "publisher": PUBLISHER,
    "requests": PUBLISHER,
    "windows": ("profiler/worker.py", "profiler/reading.py"),
    "hardware": ("hardware/worker.py",),
    "ledger": ("ledger/thread.py", "logged/courses.py"),
    "served": ("served/scraper.py",),
}


def groups(board):
    return {
        name for name, value in vars(board).items() if type(value).__module__ == "jaxtop_agent.core.board"
    }


def assigned(tree):
    """Each pair of group and field that a module assigns to, on whatever it calls its board."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            group = node.value
            if isinstance(group, ast.Attribute) and ast.unparse(group.value).endswith("board"):
                yield group.attr, node.attr


def test_only_the_code_of_its_thread_writes_a_group():
    board, written = Board(identify("test")), set()
    try:
        assert groups(board) - {"wakeups", "outbox"} == WRITERS.keys()
        for path in sorted(AGENT.rglob("*.py")):
            where = path.relative_to(AGENT).as_posix()
            for group, field in assigned(ast.parse(path.read_text())):
                assert where.startswith(WRITERS[group]), f"{where} writes {group}.{field}"
                assert hasattr(getattr(board, group), field), (
                    f"{where} writes {group}.{field}, which it lacks"
                )
                written.add((group, field))
        assert len(written) > 30
    finally:
        for wakeup in board.wakeups:
            wakeup.close()


def test_stopping_rings_every_bell():
    board = Board(identify("test"))
    fds = [wakeup.fd for wakeup in board.wakeups]
    assert len(set(fds)) == len(WakeEvents._fields)
    board.stop()
    assert all(wait(wakeup, 0) for wakeup in board.wakeups)
    for wakeup in board.wakeups:
        wakeup.close()


class TestDuties:
    def test_a_duty_does_not_drift_and_makes_up_for_one_time_at_most(self):
        done, began = [], time.monotonic()
        duty = Duty(done.append, lambda: 10.0, began - 1.0)
        duty.do_if_due("server")
        duty.do_if_due("server")
        assert (done, duty.due) == (["server"], began + 9.0)
        duty.due = began - 1000.0
        duty.do_if_due("server")
        assert len(done) == 2 and began <= duty.due <= time.monotonic()

    def test_without_an_interval_it_is_done_at_each_turn(self):
        done = []
        duty = Duty(done.append)
        for _ in range(3):
            duty.do_if_due("server")
        assert len(done) == 3

    def test_what_is_done_once_waits_until_it_is_due_again(self):
        done = []
        duty = Duty(done.append, lambda: math.inf, math.inf)
        duty.do_if_due("server")
        assert not done
        duty.due = time.monotonic()
        duty.do_if_due("server")
        duty.do_if_due("server")
        assert (len(done), duty.due) == (1, math.inf)
