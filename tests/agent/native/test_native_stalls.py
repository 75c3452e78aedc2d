"""When native stacks are read: once a process hangs, then rarely; and a failure turns off nothing else."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from jaxtop import wire
from jaxtop_agent.core.board import Board
from jaxtop_agent.native import sampling
from jaxtop_agent.native.sampling import NativeThread
from jaxtop_agent.service.identity import identify
from jaxtop_agent.stalls import native, stacks
from jaxtop_agent.stalls.native import AGAIN_S, LATE_S, NAME, SOONEST_S, NativeStacks
from tests.support import PYTHON, environment, run, script

STACK = wire.NativeStack((wire.NativeFrame("gloo::allreduce", "libx.so"),), "gloo::allreduce")


class Reader:
    """Reads native stacks when the test says so; the clock is the test's."""

    def __init__(self, monkeypatch):
        self.board = Board(identify("test"))
        self.started = []
        self.stacks = NativeStacks(self.board, tuple, lambda _, target: self.started.append(target))
        self.now = 100.0
        self.is_current, self.found = True, []
        monkeypatch.setattr(NativeThread, "is_current", property(lambda _: self.is_current))
        monkeypatch.setattr("jaxtop_agent.stalls.native.time.monotonic", lambda: self.now)
        monkeypatch.setattr(sampling, "sample", lambda *_: self.sample())

    def sample(self):
        if isinstance(self.found, Exception):
            raise self.found
        return tuple(self.found)

    def begin(self, after=0.0):
        """Let so many seconds pass; return whether a sampling has begun, and end it."""
        self.now += after
        self.stacks.begin(self.now)
        began = bool(self.started)
        while self.started:
            self.started.pop()()
        return began

    @property
    def source(self):
        return self.board.sources.get(NAME)


@pytest.fixture
def reader(monkeypatch):
    made = Reader(monkeypatch)
    made.found = [NativeThread(threading.main_thread().native_id, "python", "202 0x1", STACK)]
    yield made
    for wakeup in made.board.wakeups:
        wakeup.close()


def test_a_hang_is_read_once_while_its_threads_stay_where_they_are(reader):
    assert reader.source is None
    assert [reader.begin(after) for after in (0, 1, 30, 2 * AGAIN_S)] == [True, False, False, False]
    assert reader.source == "on"


def test_a_hang_whose_threads_have_moved_is_read_again_after_a_while(reader):
    reader.begin()
    reader.is_current = False
    assert [reader.begin(after) for after in (1, AGAIN_S - 2, 1)] == [False, False, True]


def test_the_next_hang_is_read_but_not_too_soon(reader):
    reader.begin()
    reader.stacks.forget()
    assert [reader.begin(after) for after in (1, SOONEST_S)] == [False, True]


def test_threads_that_have_moved_are_not_shown(reader):
    reader.begin()
    assert reader.stacks.current() == ({threading.main_thread().ident: STACK}, [])
    reader.is_current = False
    assert reader.stacks.current() == ({}, [])


def test_a_thread_that_python_does_not_know_is_shown_with_the_name_that_the_kernel_has(reader):
    reader.found = [NativeThread(1, "tf_XLAEigen", "202 0x1", STACK)]
    reader.begin()
    known, others = reader.stacks.current()
    assert known == {} and others == [wire.Thread("tf_XLAEigen", False, (), native=STACK)]


@pytest.mark.parametrize("error", [OSError(13, "Permission denied"), ValueError("odd"), MemoryError()])
def test_a_failure_turns_off_this_source_with_a_reason(reader, error):
    reader.found = error
    assert reader.begin()
    assert reader.source.startswith("off: ") and len(reader.source) > 6
    assert not reader.begin(2 * AGAIN_S) and reader.stacks.current() == ({}, [])


def test_where_no_thread_can_be_started_it_is_off(reader):
    def refuse(_name, _target):
        raise RuntimeError("can't start new thread")

    reader.stacks._start = refuse
    reader.stacks.begin(reader.now)
    assert "can't start new thread" in reader.source
    reader.stacks.wait(5.0)


def test_on_other_machines_it_is_off_with_the_reason(reader, monkeypatch):
    monkeypatch.setattr(sampling, "why_not", lambda: sampling.ELSEWHERE.format("linux on aarch64"))
    reader.begin()
    assert reader.source == "off: native stacks are read on Linux with x86-64 only; this is linux on aarch64"


def test_a_file_that_does_not_come_delays_nothing_and_is_reported(reader):
    reader.stacks.begin(reader.now)
    reader.now += LATE_S + 1
    reader.stacks.begin(reader.now)
    assert len(reader.started) == 1 and reader.source == native.LATE
    reader.started.pop()()
    assert reader.source == "on"


def test_native_frames_survive_a_message_that_is_cut(monkeypatch):
    monkeypatch.setattr(stacks, "MOST_BYTES", 6000)
    others = [wire.Thread("tf_XLAEigen", False, (), native=STACK)]
    found = stacks.read(frozenset(), (), {threading.main_thread().ident or 0: STACK}, others)
    assert found[0].is_main and found[0].native == STACK


def test_the_agent_does_not_import_what_reads_them():
    code = "import sys; from jaxtop_agent.service import assembly; print(*sys.modules)"
    loaded = run(PYTHON, "-c", code).stdout.split()
    assert "jaxtop_agent.stalls.native" in loaded
    assert not [each for each in loaded if each.startswith("jaxtop_agent.native")]


@pytest.mark.jax
def test_a_healthy_run_never_imports_what_reads_them(home):
    path = script(
        home,
        """
        import sys, time, jax
        from jaxtop import agent
        agent.start()
        step = jax.jit(lambda x: x + 1)
        x = 0
        for _ in range(200):
            x = step(x)
            time.sleep(0.02)
        print(int(x), [each for each in sys.modules if each.startswith("jaxtop_agent.native")])
        """,
    )
    done = run(PYTHON, path, env=environment(1))
    assert done.stdout == "200 []\n", done.stderr


def test_reading_them_takes_no_longer_than_its_limit():
    began = time.thread_time()
    sampling.sample((), ())
    assert time.thread_time() - began < sampling.CPU_S
    assert "numpy" in sys.modules
