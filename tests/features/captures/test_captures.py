"""A capture from the request to the file: what processes do and say, and what becomes of their answers."""

from __future__ import annotations

import io
import os
import threading
import time
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from jaxtop import cli, wire
from jaxtop.base import debuglog
from jaxtop.cli.errors import UserError
from jaxtop.features.captures import app_capturer, capture
from jaxtop.features.captures.app_capturer import AppCapturer
from jaxtop.features.captures.capture import OLD_RELAY, Capture, Wish
from jaxtop.features.captures.command import begun
from jaxtop.features.captures.member import Member
from jaxtop.model import Cluster
from jaxtop.wire.captures import FAILED, OPEN, PACKING, PART_BYTES, READY, STOPPING, WAITING
from jaxtop_agent import jaxprivate
from jaxtop_agent.core import capture as exchanged
from jaxtop_agent.core.board import Board
from jaxtop_agent.core.capture import BUSY, OVER, STOPS_WITHIN_S, UNHEARD_S, CaptureExchange, CaptureProgress
from jaxtop_agent.machine import basics
from jaxtop_agent.profiler.capture import EXCESS, GROWTH, CaptureWorker, packed
from jaxtop_agent.profiler.load import StepsMade
from jaxtop_agent.profiler.schedule import Schedule
from jaxtop_agent.profiler.session import InUse, ProfiledTrace
from tests import builders, patience
from tests.stage import play

RAW = os.urandom(3 * PART_BYTES) + bytes(PART_BYTES)
ASK = wire.CaptureRequest("one", 1000, 1 << 20, steps=3)


def request(what, ask=ASK, at_ms=None):
    return wire.Request(what, None, at_ms, ask)


class TestTheWire:
    def test_an_agent_that_knows_no_captures_reads_the_request_and_refuses_it(self):
        class Request(msgspec.Struct, tag="request"):
            what: str
            interval_ms: int | None = None
            at_ms: int | None = None

        raw = wire.encode(request("profile", at_ms=5))
        assert msgspec.msgpack.decode(raw, type=Request).what == "profile"

    def test_answers_without_a_capture_are_as_they_were(self):
        assert b"capture" not in wire.encode(wire.Reply("ping", "", 1))
        assert b"capture" not in wire.encode(wire.Request("pace", 500))

    @pytest.mark.parametrize(
        "wrong",
        [
            {"id": ""},
            {"id": "a" * 65},
            {"duration_ms": 0},
            {"most_bytes": 1 << 31},
            {"steps": 0},
            {"part": -1},
        ],
    )
    def test_what_is_out_of_bounds_is_not_read(self, wrong):
        capture = {"id": "one", **wrong}
        raw = msgspec.msgpack.encode({"type": "request", "what": "profile", "capture": capture})
        with pytest.raises(wire.Unreadable):
            wire.decode_as(wire.Request, raw)


class TestTheExchange:
    def test_one_capture_at_a_time_and_the_same_request_twice_is_one(self):
        exchange = CaptureExchange()
        assert exchange.answer(request("profile", at_ms=7000)) == ("", wire.CaptureState(WAITING))
        assert exchange.answer(request("profile"))[0] == "" and exchange.requested.at == 7.0
        assert exchange.answer(request("profile", wire.CaptureRequest("two")))[0] == BUSY
        assert exchange.answer(request("profile_part", wire.CaptureRequest("two")))[0] == OVER
        exchange.progress = CaptureProgress("one", FAILED, 1.0, "why")
        assert exchange.answer(request("profile", wire.CaptureRequest("two")))[0] == ""
        assert exchange.requested.request.id == "two" and exchange.has_changed
        assert exchange.answer(wire.Request("profile"))[0] == "a request about a capture has to name it"

    def test_parts_are_answered_until_the_viewer_ends_it(self):
        exchange = CaptureExchange()
        exchange.answer(request("profile"))
        exchange.progress = CaptureProgress("one", READY, time.monotonic(), "", 9, (b"abc", b"de"), 77)
        state = exchange.answer(request("profile_part", wire.CaptureRequest("one", part=1)))[1]
        assert (state.data, state.parts, state.size, state.lasted_us) == (b"de", 2, 9, 77)
        assert exchange.answer(request("profile_part", wire.CaptureRequest("one", part=2)))[1].data == b""
        assert exchange.answer(request("profile_part"))[1].data == b""
        assert exchange.answer(request("profile_end")) == ("", None)
        assert exchange.answer(request("profile_part")) == (OVER, None)
        assert exchange.has_changed, "the profiler's thread still has to drop the trace"

    def test_the_trace_of_a_viewer_that_left_is_dropped_but_not_after_a_pause_of_our_own(self):
        exchange = CaptureExchange()
        exchange.answer(request("profile"))
        now = time.monotonic()
        assert not exchange.forget_if_unheard(now)
        for second in range(1, int(UNHEARD_S)):
            assert not exchange.forget_if_unheard(now + second)
        assert not exchange.forget_if_unheard(now + 1000), "this thread was held up: it may have missed them"
        for second in range(1, int(UNHEARD_S)):
            assert not exchange.forget_if_unheard(now + 1000 + second)
        assert exchange.forget_if_unheard(now + 1001 + UNHEARD_S) and exchange.requested is None

    def test_exit_waits_for_the_profiler_only(self):
        exchange = CaptureExchange()
        assert not exchange.wait_for_stop()
        exchange.progress = CaptureProgress("one", PACKING)
        assert not exchange.wait_for_stop()

    def test_more_ctrl_c_at_exit_do_not_move_the_deadline_and_are_reported_once(self, monkeypatch):
        exchange, warnings, now = CaptureExchange(), [], [0.0]
        exchange.progress = CaptureProgress("one", STOPPING)

        def sleep(_):
            now[0] += 100.0
            raise KeyboardInterrupt

        monkeypatch.setattr(exchanged, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
        monkeypatch.setattr(debuglog, "warning", lambda *words: warnings.append(words))
        for _ in range(int(STOPS_WITHIN_S / 100)):
            with pytest.raises(KeyboardInterrupt):
                exchange.wait_for_stop()
        assert [exchange.wait_for_stop() for _ in range(2)] == [True, False], "the threads get time once"
        assert now == [STOPS_WITHIN_S] and len(warnings) == 1


class Sessions:
    """Stands in for the profiler: takes a capture, whose end it asks for, and returns these bytes."""

    def __init__(self, raw=RAW, seconds=0.5, cut_off=False, error=None):
        self.raw, self.seconds, self.cut_off, self.error = raw, seconds, cut_off, error
        self.ends, self.phases = [], []
        self.during = lambda: None

    def capture(self, seconds, is_over, stopping):
        if self.error:
            raise self.error
        self.asked_for = seconds
        self.during()
        self.ends.append(is_over())
        stopping()
        self.during()
        return ProfiledTrace(1, self.seconds, 0.0, self.raw, self.cut_off)


@pytest.fixture
def agent(monkeypatch):
    """The agent's side of a capture, with what it counts."""
    monkeypatch.setattr(jaxprivate, "default_client", object)
    board = Board(builders.hello(0))
    counted = SimpleNamespace(events=0, steps=0.0, functions=("step",))
    load = SimpleNamespace(recorder=lambda: lambda: counted.events)

    def steps():
        return None if counted.steps is None else StepsMade(counted.functions, counted.steps)

    schedule = Schedule()
    schedule.requested_at = lambda wanted, now: wanted or now
    capture = CaptureWorker(board, load, schedule, steps)
    taken = []  # what is read for the tables

    def take(sessions, ask=ASK):
        board.capture.answer(request("profile", ask))
        taken.append(capture.serve(sessions))
        return board.capture.answer(request("profile_part", wire.CaptureRequest(ask.id, part=0)))[1]

    return SimpleNamespace(board=board, counted=counted, take=take, capturing=capture, taken=taken)


class TestTaking:
    def test_a_capture_is_packed_and_ready_and_dropped_when_it_is_ended(self, agent):
        sessions, phases = Sessions(), []
        sessions.during = lambda: phases.append(agent.board.capture.progress.phase)
        state = agent.take(sessions)
        assert phases == [OPEN, STOPPING] and sessions.asked_for == 1.0
        assert (state.phase, state.text, state.size) == (READY, "", len(RAW))
        assert state.lasted_us == 500_000 and len(state.data) == PART_BYTES
        parts = agent.board.capture.progress.parts
        assert agent.taken[0].trace == RAW
        assert zlib.decompress(b"".join(parts)) == RAW and max(map(len, parts)) <= PART_BYTES
        agent.board.capture.answer(request("profile_end"))
        agent.capturing.serve(sessions)
        assert not agent.board.capture.progress.parts and not agent.board.capture.has_changed

    def test_it_ends_after_the_steps_that_were_asked_for(self, agent):
        sessions = Sessions()
        for steps, is_over in ((2.9, False), (3.9, False), (4.0, True)):
            agent.counted.steps = 0.0
            sessions.during = lambda steps=steps: setattr(agent.counted, "steps", steps)
            agent.take(sessions, wire.CaptureRequest(str(steps), 1000, 1 << 20, steps=3))
            assert sessions.ends.pop() is is_over
            agent.board.capture.answer(request("profile_end", wire.CaptureRequest(str(steps))))

    def test_steps_count_from_when_they_are_known(self, agent):
        agent.counted.steps = None
        found = []

        class Looking(Sessions):
            def capture(self, seconds, is_over, stopping):
                for steps, functions in ((None, "a"), (7, "a"), (10, "a"), (3, "b"), (6, "b"), (7, "b")):
                    agent.counted.steps, agent.counted.functions = steps, (functions,)
                    found.append(is_over())
                return super().capture(seconds, is_over, stopping)

        agent.take(Looking())
        assert found == [False, False, False, False, False, True]

    def test_steps_that_were_not_counted_are_said(self, agent):
        state = agent.take(Sessions(seconds=1.0))
        assert state.text == "ended after 1.0 s: 3 steps were not counted in this time"

    def test_it_ends_before_its_trace_is_larger_than_asked_for(self, agent):
        sessions = Sessions()
        sessions.during = lambda: setattr(agent.counted, "events", 1 << 20)
        state = agent.take(sessions)
        assert sessions.ends == [True]
        assert state.text == "ended after 0.5 s: its trace has the largest size that was asked for"

    def test_it_ends_when_the_process_has_grown(self, agent, monkeypatch):
        sizes = iter((0, GROWTH * (1 << 20) + 1))
        monkeypatch.setattr(basics, "process", lambda: basics.ProcessUsage(next(sizes)))
        assert agent.take(Sessions()).text == "ended after 0.5 s: the process had grown by 6 MB"

    def test_it_ends_before_a_container_with_little_memory_left_is_full(self, agent, monkeypatch):
        sizes = iter((0, (1 << 19) + 1))
        monkeypatch.setattr("jaxtop_agent.profiler.capture.memory_left", lambda: 1 << 21)
        monkeypatch.setattr(basics, "process", lambda: basics.ProcessUsage(next(sizes)))
        assert agent.take(Sessions()).text == "ended after 0.5 s: the process had grown by 1 MB"

    def test_a_trace_that_is_far_too_large_is_not_sent(self, agent):
        state = agent.take(Sessions(bytes(EXCESS * ASK.most_bytes + 1)))
        assert (state.phase, state.data) == (FAILED, b"")
        assert state.text == "the trace has 2.1 MB, 1.0 were allowed: ask for less time, or for a larger size"

    def test_the_script_comes_first(self, agent):
        state = agent.take(Sessions(error=InUse("the script's own profile is running")))
        assert (state.phase, state.text) == (FAILED, "the script's own profile is running")
        state = agent.take(Sessions(cut_off=True), wire.CaptureRequest("two"))
        assert (state.phase, state.text) == (
            READY,
            "ended after 0.5 s: the script began its own profile",
        )

    def test_an_error_of_the_profiler_is_said_and_ends_its_thread(self, agent):
        with pytest.raises(ValueError, match="odd"):
            agent.take(Sessions(error=ValueError("odd")))
        assert agent.board.capture.progress.text == "ValueError: odd"

    def test_what_was_given_up_meanwhile_is_not_kept(self, agent):
        sessions = Sessions()
        sessions.during = lambda: agent.board.capture.answer(request("profile_end"))
        assert agent.take(sessions) is None and not agent.board.capture.progress.parts
        assert agent.taken == [None]

    def test_without_devices_there_is_nothing_to_capture(self, agent, monkeypatch):
        monkeypatch.setattr(jaxprivate, "default_client", lambda: None)
        assert agent.take(Sessions()).text == "JAX has no devices"


class Process:
    """An agent as the viewer's side meets it: its answers, of which some are lost."""

    def __init__(self, raw=RAW, phases=(OPEN, STOPPING, PACKING), lost=0):
        self.exchange = CaptureExchange()
        self.ready = SimpleNamespace(size=len(raw), parts=tuple(packed(raw)))
        self.phases, self.lost, self.asked = list(phases), lost, []

    def answer(self, asked):
        self.asked.append(asked)
        if self.lost and asked.what != "profile":
            self.lost -= 1
            return None
        if asked.what == "profile_part":
            name, ready = asked.capture.id, self.ready
            if self.phases:
                self.exchange.progress = CaptureProgress(name, self.phases.pop(0), 1.0)
            else:
                self.exchange.progress = CaptureProgress(name, READY, 1.0, "", ready.size, ready.parts, 5)
        error, state = self.exchange.answer(asked)
        return wire.Reply(asked.what, error, capture=state)


class Source:
    def __init__(self, **processes):
        self.processes = processes

    def request(self, agent, asked, done):
        done(self.processes[agent].answer(asked))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(capture, "ASK_EVERY_S", 0.0)
    monkeypatch.setattr(capture, "ASK_EVERY_S_A_PROCESS", 0.0)
    monkeypatch.setattr(capture, "ALIVE_EVERY_S", 0.0)


class File(io.BytesIO):
    content = b""

    def close(self):
        self.content = self.getvalue()
        super().close()


def captured(**processes):
    """A capture of these processes, done, and the files."""
    files = {}

    def open_sink(agent):
        files[agent] = File()
        return files[agent]

    job = Capture(processes, Wish(1.0, 1 << 20), open_sink, time.time())
    source = Source(**processes)
    for _ in range(1000):
        job.advance(source)
        if job.is_done:
            return job, files
    raise AssertionError([*job.members.values()])


class TestFetching:
    def test_several_processes_are_asked_for_the_same_moment_and_their_traces_arrive(self):
        processes = {"a": Process(), "b": Process(RAW[:100])}
        job, files = captured(**processes)
        assert {name: file.content for name, file in files.items()} == {"a": RAW, "b": RAW[:100]}
        begins = {each.at_ms for process in processes.values() for each in process.asked if each.at_ms}
        assert begins == {round(job.at * 1000)} and job.share == 1.0
        assert all(each.exchange.requested is None for each in processes.values()), (
            "they know that it is over"
        )

    def test_lost_answers_are_asked_for_again(self):
        job, files = captured(a=Process(lost=7))
        assert files["a"].content == RAW and job.complete

    @pytest.mark.parametrize(
        ("harm", "why"),
        [
            (lambda _: None, ""),
            (lambda p: setattr(p, "answer", lambda _: wire.Reply("profile", "no")), "no"),
            (lambda p: setattr(p, "answer", lambda _: wire.Reply("profile")), OLD_RELAY),
            (lambda p: setattr(p.ready, "size", 1 << 30), "sent a trace of no possible size"),
            (lambda p: setattr(p.ready, "size", 5), "it sent a trace that is not what it announced"),
            (lambda p: setattr(p.ready, "size", len(RAW) + 1), "it sent a trace that is not complete"),
            (lambda p: setattr(p.ready, "parts", p.ready.parts[:-1]), "it sent a trace that is not complete"),
            (lambda p: setattr(p.ready, "parts", (b"odd", b"er")), "its trace cannot be written"),
            (lambda p: setattr(p.ready, "parts", (b"",)), "it sent a trace that is not what it announced"),
        ],
    )
    def test_a_process_that_fails_is_named_and_the_others_are_kept(self, harm, why):
        wrong = Process()
        harm(wrong)
        job, files = captured(a=wrong, b=Process())
        assert files["b"].content == RAW
        assert job.members["a"].text.startswith(why) and job.members["a"].is_complete is (why == "")

    @pytest.mark.parametrize("can_open", [False, True])
    def test_a_full_disk_fails_that_process(self, can_open):
        def full(_):
            if not can_open:
                raise OSError(28, "No space left on device")
            file = Path("/dev/full").open("wb")  # noqa: SIM115 - the capture closes it
            file.write(b"a byte that cannot be written when the file is closed, either")
            return file

        job = Capture(["a"], Wish(1.0, 1 << 20), full, time.time())
        source = Source(a=Process())
        while not job.is_done:
            job.advance(source)
        assert job.members["a"].text == "its trace cannot be written: no space left on device"

    @pytest.mark.parametrize(
        ("phase", "seconds", "why"),
        [
            ("", 11, "did not answer"),
            (WAITING, 61, "said nothing for 61 s"),
            (OPEN, 59, ""),
            (STOPPING, 590, ""),
            (STOPPING, 601, "the profiler did not stop within 600 s"),
            (PACKING, 61, "said nothing for 61 s"),
            (READY, 61, "said nothing for 61 s"),
        ],
    )
    def test_every_wait_is_bounded(self, monkeypatch, phase, seconds, why):
        job = Capture(["a"], Wish(1.0, 1 << 20), lambda _: File(), time.time())
        began = time.monotonic()
        member = job.members["a"]
        member.phase, member.since, member.heard, member.is_asked = phase, began, began, True
        monkeypatch.setattr(time, "monotonic", lambda: began + seconds)
        job.advance(SimpleNamespace(request=lambda *_: None))
        assert member.text == why

    @pytest.mark.parametrize(
        ("phase", "why"),
        [
            (WAITING, "did not begin: its profiler thread is busy"),
            (OPEN, "was still capturing after 601 s"),
            (STOPPING, "the profiler did not stop within 600 s"),
            (PACKING, "was still packing after 601 s"),
            ("a new phase", "was still a new phase after 601 s"),
            (READY, "sent no part of its trace for 601 s"),
        ],
    )
    def test_every_phase_is_bounded_also_of_a_process_that_answers(self, monkeypatch, phase, why):
        job = Capture(["a"], Wish(1.0, 1 << 20), lambda _: File(), time.time())
        began = time.monotonic()
        member = job.members["a"]
        member.phase, member.since, member.heard, member.is_asked = phase, began, began + 600, True
        monkeypatch.setattr(time, "monotonic", lambda: began + 601)
        job.advance(SimpleNamespace(request=lambda *_: None))
        assert member.text == why

    def test_a_process_that_returns_to_a_phase_gets_no_more_time(self):
        member = Member("a")
        for second, phase in enumerate((OPEN, STOPPING) * 50 + tuple(map(str, range(50)))):
            member.enter(phase, float(second))
        assert (member.phase, member.since) == ("49", 105.0), "six more phases are given time"

    def test_what_is_given_up_is_ended_everywhere(self):
        processes = {"a": Process(phases=[OPEN] * 1000), "b": Process(phases=[STOPPING] * 1000)}
        job = Capture(processes, Wish(1.0, 1 << 20), lambda _: File(), time.time())
        source = Source(**processes)
        for _ in range(5):
            job.advance(source)
        job.stop()
        job.advance(source)
        assert job.is_done and all(each.exchange.requested is None for each in processes.values())


@pytest.mark.parametrize(
    "words",
    [
        ["--steps", "0"],
        ["--steps", "many"],
        ["--seconds", "0"],
        ["--seconds", "601"],
        ["--steps", "2", "--seconds", "1"],
        ["--hosts", "a"],
        ["--hosts", "3-1"],
        ["--max-size", "1"],
        ["--max-size", "2G"],
        ["--max-size", "1001M"],
        ["127.0.0.1:1"],
        ["no-such-run"],
        [],
    ],
)
def test_wrong_input_is_one_line(words, capsys):
    assert cli.main(["capture", *words]) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("jaxtop: ") and err.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file cannot be written: Not a directory"):
        begun(tmp_path / "file")


class TestTheKey:
    """`C` in the app."""

    class Capturer:
        def __init__(self):
            self.status, self.asked, self.news = "", [], []

        def toggle(self, cluster, agents):
            self.asked.append((len(cluster.hosts), len(agents)))
            self.status = "capture: capturing, 1 s (4 of 4 processes); C gives it up"
            return "capturing 4 processes"

        def ended(self):
            news, self.news = self.news, []
            return news

    def test_it_begins_a_capture_whose_progress_and_result_are_shown(self):
        capturer = self.Capturer()

        async def act(stage):
            await stage.press("C")
            assert capturer.asked == [(builders.PROCESSES, builders.PROCESSES)]
            await stage.paint()
            assert "capturing, 1 s (4 of 4" in stage.line("facts")
            capturer.status, capturer.news = "", [("captured 4 of 4 processes to run-captures", True)]
            await stage.paint()
            assert "capturing" not in stage.line("facts")
            assert "run-captures" in " ".join(stage.said)

        play(act, *builders.well(), request_sender=lambda *_: None, capturer=capturer)

    def test_of_two_runs_none_is_taken(self):
        cluster = builders.folded(builders.well(processes=2))
        agents = [builders.agent_id(index) for index in range(2)]
        one = cluster.hosts[agents[1]]
        cluster.hosts = {**cluster.hosts, agents[1]: replace(one, run="b")}
        begun = []
        said = AppCapturer(begun.append).toggle(cluster, agents)
        assert said.startswith("2 runs are shown") and not begun

    def test_leaving_the_app_during_a_merge_is_announced(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(app_capturer, "QUIET_S", 0.0)
        cluster, go_on, jobs = Cluster(), threading.Event(), []
        for frame in builders.well(processes=1):
            cluster.feed(frame)
        capturer = AppCapturer(jobs.append)
        monkeypatch.setattr(capturer, "_finish", lambda *_: go_on.wait(patience.left()))
        capturer.toggle(cluster, [builders.agent_id(0)])
        jobs[0].give_up()
        threading.Timer(0.3, go_on.set).start()
        capturer.close()
        out, err = capsys.readouterr()
        assert not out and err.startswith("jaxtop: merging the capture in ") and err.count("\n") == 1

    def test_in_a_recording_nobody_can_be_asked(self):
        async def act(stage):
            await stage.press("C")
            assert any("requests need a live run" in each for each in stage.said)

        play(act, *builders.well())
