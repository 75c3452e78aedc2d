"""When a process counts as stuck, and when those of a run agree on it."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.transport.listener import MOST_A_SECOND
from jaxtop_agent.stuck import usage
from jaxtop_agent.stuck.agreement import (
    NOTICE_S,
    REPORT_EVERY_S,
    REPORTS_A_SECOND,
    VALID_S,
    Notice,
    StillReports,
    pace,
)
from jaxtop_agent.stuck.evidence import place_text
from jaxtop_agent.stuck.standstill import LATE_S, TIMES_LONGEST, Observation, Standstill
from jaxtop_agent.stuck.usage import Usage, Use
from tests.support import PYTHON, eventually, processes

LIMIT = 100.0


class Process:
    """A process that launches until it stands still; a second passes at each look."""

    def __init__(self):
        self.now, self.done_at, self.busy, self.bytes = 1000.0, 0.0, "", 0
        self.standstill = Standstill(LIMIT, self.now, self.read)

    def read(self, now):
        return Usage(now, {1: Use(bytes=self.bytes)}, {}, {})

    def look(self, seconds=1, *, launches=False, moves=False):
        for _ in range(seconds):
            self.now += 1
            self.bytes += 5000 * moves
            self.done_at = self.now if launches else self.done_at
            self.standstill.update(self.now, Observation(self.done_at, self.busy, bool))
        return self.standstill.is_stuck

    def until_stuck(self, most=1000):
        return next(i for i in range(1, most) if self.look())


@pytest.fixture
def process():
    found = Process()
    found.look(20, launches=True)
    return found


class TestStandstill:
    def test_it_takes_the_limit_from_the_first_reading(self, process):
        assert LIMIT + process.standstill.quiet_s <= process.until_stuck() <= LIMIT * 1.25

    def test_a_launch_ends_it(self, process):
        process.until_stuck()
        assert not process.look(launches=True)
        assert process.until_stuck() >= LIMIT

    @pytest.mark.parametrize("what", ["busy", "bytes", "launch"])
    def test_what_moves_in_between_begins_it_anew(self, process, what):
        process.look(90)
        process.busy = "compiles" if what == "busy" else ""
        process.look(15, moves=what == "bytes", launches=what == "launch")
        process.busy = ""
        assert process.until_stuck() >= LIMIT - 15

    def test_while_it_moves_slowly_it_is_never_stuck(self, process):
        assert not any(process.look(moves=True) for _ in range(500))

    def test_a_pause_of_its_clock_begins_it_anew(self, process):
        """As after SIGSTOP: the other clocks went on."""
        process.look(90)
        process.now += LATE_S + 1000
        assert not process.look()
        assert process.until_stuck() >= LIMIT

    def test_a_pause_of_its_clock_is_no_pause_of_the_script(self, process):
        process.look(5)
        process.now += 1000
        process.look(1)
        process.look(1, launches=True)
        assert process.until_stuck() <= LIMIT * 1.25

    def test_it_lasts_longer_than_the_longest_pause_that_ended_by_itself(self, process):
        process.look(90)
        process.look(launches=True)
        assert process.until_stuck() >= 90 * TIMES_LONGEST

    @pytest.mark.parametrize("what", ["collects input", "reads or writes"])
    def test_a_process_that_is_not_stuck_says_why(self, process, what):
        process.busy = what
        assert not process.look(int(LIMIT))
        assert not process.standstill.moves_without_launches
        assert not process.look(50)
        assert process.standstill.moves_without_launches == what
        process.busy = ""
        process.until_stuck()
        assert not process.standstill.moves_without_launches


class TestAgreement:
    def report(self, agreement, index, now, run="r"):
        return agreement.note(wire.Still(run, index, 1), now)

    def decide(self, agreement, now, count=3, is_stuck=True):
        missing = agreement.missing(count, "r", now)
        return agreement.decide(is_stuck=is_stuck, missing=missing, count=count, now=now)

    def test_all_must_say_it(self):
        agreement = StillReports()
        assert self.report(agreement, 1, 10) is None
        assert not self.decide(agreement, 10) and agreement.missing(3, "r", 10) == [2]
        assert self.report(agreement, 2, 10) is None
        assert not self.decide(agreement, 10)
        assert self.report(agreement, 1, 12) == (NOTICE_S - 2) * 1000
        for second in range(11, 10 + round(NOTICE_S) + 1):
            self.report(agreement, 1, second)
            self.report(agreement, 2, second)
            assert self.decide(agreement, second) == (second >= 10 + NOTICE_S)

    def test_a_large_run_reports_no_more_often_than_an_agent_accepts_connections(self):
        count, agreement = 1024, StillReports()
        seconds = REPORT_EVERY_S * pace(count)
        assert count / seconds <= REPORTS_A_SECOND < MOST_A_SECOND
        for index in range(1, count):
            self.report(agreement, index, 10 + seconds * index / count)
        assert not self.decide(agreement, 10 + seconds, count) and not agreement.missing(
            count, "r", 10 + seconds
        )
        assert agreement.ends_at == 10 + seconds + NOTICE_S * pace(count)
        assert pace(2) == 1

    def test_one_that_moves_again_calls_it_off(self):
        agreement = StillReports()
        self.report(agreement, 1, 10)
        self.report(agreement, 2, 10)
        self.decide(agreement, 10)
        self.report(agreement, 1, 10 + VALID_S)
        assert not self.decide(agreement, 10.1 + VALID_S) and agreement.ends_at is None
        assert self.report(agreement, 1, 10.2 + VALID_S) is None

    def test_process_0_must_be_stuck_itself_and_other_runs_do_not_count(self):
        agreement = StillReports()
        for index in (1, 2):
            self.report(agreement, index, 10)
        self.decide(agreement, 10, is_stuck=False)
        assert agreement.ends_at is None
        self.report(agreement, 2, 10, run="another")
        assert agreement.missing(3, "r", 10) == [2]

    def test_alone_it_needs_nobody(self):
        assert self.decide(StillReports(), 10, count=1)

    def test_the_others_end_when_process_0_says_unless_it_falls_silent(self):
        notice = Notice()
        assert not notice.decide(is_stuck=True, now=10)
        notice.hear(2000, 10)
        notice.hear(1500, 11)  # this answer took half a second longer
        assert not notice.decide(is_stuck=True, now=11.9) and notice.decide(is_stuck=True, now=12)
        notice.hear(None, 12)
        assert not notice.decide(is_stuck=True, now=12)
        notice.hear(8000, 12)
        assert not notice.decide(is_stuck=True, now=12 + VALID_S + 0.1)
        assert not notice.decide(is_stuck=True, now=math.inf)

    def test_one_that_moves_does_not_end(self):
        notice = Notice()
        notice.hear(0, 10)
        assert not notice.decide(is_stuck=False, now=10) and not notice.decide(is_stuck=True, now=10)


class TestUsage:
    """Of this process: one thread acts, and the one that reads is left out, as the agent's are."""

    @pytest.fixture(autouse=True)
    def thread(self):
        with ThreadPoolExecutor(1) as self.pool:
            self.pool.submit(int).result()
            yield

    def read(self, ports=frozenset()):
        return usage.read(time.monotonic(), (threading.get_native_id(),), ports)

    def moved(self, act, seconds=1.0, ports=frozenset()):
        before = self.read(ports)
        self.pool.submit(act).result()
        now = self.read(ports)
        return usage.moved(before._replace(at=now.at - seconds), now)

    def test_one_that_sleeps_does_not_move(self):
        assert eventually(lambda: not self.moved(lambda: time.sleep(0.5), 3.0))

    def test_one_that_computes_does(self):
        def act():
            end = time.thread_time() + 0.2
            while time.thread_time() < end:
                pass

        assert self.moved(act) == "computes"

    def test_one_that_reads_a_little_does(self, tmp_path):
        (tmp_path / "file").write_bytes(bytes(4096))
        assert self.moved((tmp_path / "file").read_bytes) == "reads or writes"

    def test_one_that_receives_a_little_does_but_not_on_ports_that_are_left_out(self):
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname()) as far,
            server.accept()[0] as near,
        ):

            def act():
                far.sendall(bytes(2000))
                near.recv(4000)

            assert self.moved(act) == "sends or receives"
            assert self.moved(act, ports=frozenset({server.getsockname()[1]})) == ""

    def test_one_whose_child_computes_does(self):
        words = [PYTHON, "-c", "print(flush=True)\nwhile True: pass"]
        with processes(words, stdout=subprocess.PIPE) as (child,):
            child.stdout.readline()
            # On a busy machine it may get no core for a while, or this process may not.
            moved = "a process that it started computes"
            assert eventually(lambda: self.moved(lambda: time.sleep(0.5)) == moved)

    def test_one_that_starts_something_does(self):
        assert self.moved(lambda: subprocess.run(["sleep", "0.1"], check=True), 1e6) == ""
        started = []
        moved = self.moved(lambda: started.append(subprocess.Popen(["sleep", "60"])))
        with started[0] as child:
            child.kill()
        assert moved == "starts or ends other processes"

    def test_threads_that_are_left_out_count_neither_for_cpu_nor_for_bytes(self):
        own = threading.get_native_id()
        assert own in usage.read(0.0, (), frozenset()).threads and own not in self.read().threads
        before, now = Usage(0.0, {7: Use()}, {}, {}), Usage(1.0, {7: Use(cpu=0.9)}, {}, {})
        assert usage.moved(before, now) == "computes"
        assert usage.moved(before, now, {8}.__contains__) == ""

    def test_one_that_waits_for_a_core_would_move(self):
        before, now = Usage(0.0, {7: Use()}, {}, {}), Usage(1.0, {7: Use(delayed=0.9)}, {}, {})
        assert usage.moved(before, now) == "waits for a core"

    def test_infiniband_is_counted_where_there_is_some(self):
        before, now = Usage(0.0, {}, {}, {}), Usage(1.0, {}, {}, {}, fabric=2 << 20)
        assert usage.moved(before, now) == "sends or receives over InfiniBand"

    def test_a_reading_changes_nothing(self):
        descriptors = os.listdir("/proc/self/fd")
        for _ in range(20):
            usage.read(0.0, (), frozenset({1}))
        assert os.listdir("/proc/self/fd") == descriptors


class TestPlace:
    """Where the line that is printed at the end says that the process is."""

    MAIN = wire.Thread(
        "main", True, (wire.Place("train.py", 88, "load"), wire.Place("jax/api.py", 9, "wait"))
    )

    def text(self, native, *others):
        return place_text(wire.Stacks(0, (replace(self.MAIN, native=native), *others)))

    def test_it_is_told_by_the_thread_that_communicates_as_in_a_postmortem(self):
        main = wire.NativeStack((), "jax::Await", "", "a lock or condition")
        pool = wire.Thread("pool", False, (), native=wire.NativeStack((), "gloo::waitRecv"))
        assert self.text(main, pool) == "; this one at train.py:88 load in gloo::waitRecv"
        assert self.text(main) == "; this one at train.py:88 load in jax::Await"

    def test_where_no_function_tells_the_system_call_does(self):
        stack = wire.NativeStack((), waits_for="a child process")
        assert self.text(stack) == "; this one at train.py:88 load waits for a child process"
        assert self.text(None) == "; this one at train.py:88 load"
        assert place_text(wire.Stacks(0, ())) == ""
