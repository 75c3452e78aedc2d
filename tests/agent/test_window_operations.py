"""Operations in windows of the profiler: what traces of each platform show, beside a count by hand."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from jaxtop import traces
from jaxtop.traces.parts import CONTAINER, DeviceLaunch, LaunchSpan, Op, TraceContents
from jaxtop.wire import MAX_TELEMETRY, Operations, Window, encode
from jaxtop_agent.core.board import Board, Topology
from jaxtop_agent.profiler import operations
from jaxtop_agent.profiler.reading import TraceReader
from jaxtop_agent.profiler.session import ProfiledTrace
from jaxtop_agent.programs.executed_operations import ExecutedOperation
from jaxtop_agent.programs.loaded_executables import LoadedExecutable
from tests import builders
from tests.agent.test_windows import gpu_space, profile
from tests.made.xspace import Event, plane, space
from tests.support import ROOT

pytestmark = pytest.mark.jax

FOLDER = ROOT / "tests" / "data" / "traces"
NOTHING_KNOWN = traces.WantedCollectives({})


def news_of(seen, loaded=(), executed=None):
    return operations.Shown(seen, 5).news(loaded, executed or {})


def test_what_a_trace_contains_is_sent_as_a_window_and_operations_and_again_once_programs_are_read(captured):
    """A capture may come before the program has been read."""
    import jax

    board = Board(builders.hello(0))
    topology = Topology(0, 1, "cpu", board.identity.devices, None)
    reader = TraceReader(board, SimpleNamespace(parse=jax.profiler.ProfileData.from_serialized_xspace))
    taken = ProfiledTrace(5, 1.0, 0.0, captured)
    window, events = reader.read(topology, taken, Window(5, 1_000_000, is_capture=True), lambda: None)
    reader.send_operations()
    assert window.is_capture and len(window.launches) == 3 and events > 100 and not taken.trace
    sent = [board.outbox.take() for _ in range(3)]
    assert sent[0] == window and isinstance(sent[1], Operations) and sent[2] is None
    op = sent[1].operations[0].op
    board.programs.loaded = (LoadedExecutable("jit_on_each_device", "a", None, None),)
    board.programs.executed = {("jit_on_each_device", "a"): {op: ExecutedOperation("matmul", "a.py:1")}}
    reader.send_operations()
    (after,) = [
        each
        for each in iter(board.outbox.take, None)
        if isinstance(each, Operations) and each.fingerprint == "a"
    ]
    assert (after.operations[0].op, after.operations[0].source) == (op, "a.py:1")
    assert after.launches == sent[1].launches


def times(message):
    return {each.op: (each.time_us, each.runs) for each in message.operations}


def sent_us(message):
    return sum(each.time_us for each in message.operations) + sum(message.rest_us.values()) + message.idle_us


@pytest.fixture(params=["0.10.2", "0.8.0"])
def captured(request):
    return (FOLDER / f"cpu-jax-{request.param}-process-0.pb").read_bytes()


class TestCapturedOnCpus:
    def test_times_and_runs_are_those_of_the_trace_itself(self, captured):
        spent, runs = Counter(), Counter()
        for line in (line for each in profile(captured).planes for line in each.lines):
            for event in line.events:
                if "hlo_op" in dict(event.stats) and not CONTAINER.fullmatch(event.name):
                    spent[event.name] += event.duration_ns / 1000
                    runs[event.name] += 1
        (found,) = news_of(traces.read("cpu", profile(captured), NOTHING_KNOWN, {}, has_names=True))
        assert (found.program, found.launches) == ("jit_on_each_device", 3 * 2)
        assert times(found) == {op: (pytest.approx(us, abs=1), runs[op]) for op, us in spent.items()}

    def test_they_add_up_to_the_launches(self, captured):
        seen = traces.read("cpu", profile(captured), NOTHING_KNOWN, {}, has_names=True)
        (found,) = news_of(seen)
        assert sent_us(found) == pytest.approx(
            sum(span.end - span.start for span in seen.spans) / 1000, abs=10
        )

    def test_a_window_without_names_shows_the_same_launches(self, captured):
        plain = traces.read("cpu", profile(captured), NOTHING_KNOWN, {})
        named = traces.read("cpu", profile(captured), NOTHING_KNOWN, {}, has_names=True)
        assert not plain.named
        assert (plain.spans, plain.ops, plain.cut) == (named.spans, named.ops, named.cut)
        assert {key: sorted(each) for key, each in plain.busy.items()} == {
            key: sorted(each) for key, each in named.busy.items()
        }


def on_cpu(*threads):
    """A launch on one device: it begins on the first thread and ends on the last."""
    launch: dict[str, int | str] = {"run_id": 7, "device_ordinal": 0, "hlo_module": "jit_f", "program_id": 3}
    lines = {}
    for number, thread in enumerate(threads):
        lines[f"tf_XLAPjRt/{number}" if not number else f"tf_XLAEigen/{number}"] = [
            Event(name, at, us, stats if name.startswith("end: ") else {**stats, **launch})
            for name, at, us, stats in thread
        ]
    return space(plane("/host:CPU", lines))


BEGIN = ("[0] TfrtCpuExecutable::Execute (jit_f)", 0, 1, {})


class TestOnCpus:
    def test_an_operation_that_goes_on_elsewhere_ends_when_its_successor_begins(self):
        """XLA writes the end of an operation after the operations that waited for it."""
        raw = on_cpu(
            [BEGIN, ("dot.1", 10, 20, {"_pt": 0, "_p": 1})],
            [
                ("add.2", 70, 5, {"_pt": 0, "_p": 2}),
                ("end: add.2", 75, 0, {"_ct": 0, "_c": 2}),
                ("end: dot.1", 80, 0, {"_ct": 0, "_c": 1}),
                ("ThunkExecutor::Execute (wait for completion)", 90, 1, {}),
            ],
        )
        (found,) = news_of(traces.read("cpu", profile(raw), NOTHING_KNOWN, {}, has_names=True))
        assert times(found) == {"dot.1": (60, 1), "add.2": (5, 1)}
        assert found.idle_us == 16  # from 75 to 91

    def test_one_that_ends_elsewhere_alone_ends_there(self):
        raw = on_cpu(
            [BEGIN, ("dot.1", 10, 20, {"_pt": 0, "_p": 1})],
            [
                ("end: dot.1", 80, 0, {"_ct": 0, "_c": 1}),
                ("ThunkExecutor::Execute (wait for completion)", 80, 1, {}),
            ],
        )
        (found,) = news_of(traces.read("cpu", profile(raw), NOTHING_KNOWN, {}, has_names=True))
        assert times(found) == {"dot.1": (70, 1)}

    def test_a_sort_runs_once_though_it_has_two_events(self):
        """XLA copies the operand under the name of the sort."""
        raw = on_cpu(
            [
                BEGIN,
                ("sort.0", 10, 2, {"_pt": 0, "_p": 1}),
                ("end: sort.0", 12, 0, {"_ct": 0, "_c": 1}),
                ("sort.0", 20, 30, {"_pt": 0, "_p": 2}),
                ("end: sort.0", 50, 0, {"_ct": 0, "_c": 2}),
                ("ThunkExecutor::Execute (wait for completion)", 50, 1, {}),
            ],
        )
        seen = traces.read("cpu", profile(raw), NOTHING_KNOWN, {}, has_names=True)
        (found,) = news_of(seen, executed={("jit_f", None): {"sort.0": ExecutedOperation("sort", times=1)}})
        assert times(found) == {"sort.0": (32, 1)}


class TestAcceleratorsAsDocumented:
    def test_on_gpus_the_compiler_knows_how_often_an_operation_runs(self):
        """A library may start several kernels for one operation."""
        seen = traces.read("gpu", profile(gpu_space()), NOTHING_KNOWN, {1: 11}, has_names=True)
        known = {"fusion.1": ExecutedOperation("fusion", "train.py:3", 8, 16, times=4)}
        (found,) = news_of(seen, executed={("jit_step", None): known})
        assert times(found) == {"all-reduce-start.1": (60, None), "fusion.1": (30, 12)}
        assert [(each.kind, each.source) for each in found.operations] == [
            ("collective", ""),
            ("fusion", "train.py:3"),
        ]
        assert found.launches == 3

    def test_on_tpus_loops_are_not_counted_beside_what_they_hold(self):
        lines = {
            "XLA Modules": [Event("jit_step(1234)", 10, 80, {"run_id": 5})],
            "XLA Ops": [
                Event("%while.2 = f32[8] while(...)", 11, 70, {}),
                Event("%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p)", 11, 29, {}),
                Event("%all-gather.3 = f32[8]{0} all-gather(...)", 70, 10, {}),
            ],
        }
        raw = space(plane("/device:TPU:0", lines))
        (found,) = news_of(traces.read("tpu", profile(raw), NOTHING_KNOWN, {}, has_names=True))
        assert times(found) == {"fusion.1": (29, 1), "all-gather.3": (10, 1)}
        assert found.idle_us == 80 - 39


def made(operations_each, programs=1):
    """Each operation takes a microsecond more than the one before it, in one launch of each program."""
    seen = TraceContents(has_names=True)
    for program in range(programs):
        at = program * 10**9
        for i in range(operations_each):
            seen.work(DeviceLaunch(f"jit_{program}", program, 0), at, at + (i + 1) * 1000, f"op.{i}")
            at += (i + 1) * 1000
        seen.spans.append(LaunchSpan(f"jit_{program}", program, 0, program * 10**9, at + 500_000))
    return seen


class TestWhatIsSent:
    def test_the_longest_are_listed_and_the_rest_is_a_sum(self):
        known = {f"op.{i}": ExecutedOperation("copy" if i % 2 else "matmul") for i in range(50)}
        (found,) = news_of(made(100), executed={("jit_0", None): known})
        assert [each.op for each in found.operations] == [f"op.{i}" for i in range(99, 59, -1)]
        assert found.rest == 60
        assert found.rest_us == {
            "copy": sum(range(2, 51, 2)), "matmul": sum(range(1, 51, 2)), "": sum(range(51, 61))
        }  # fmt: skip
        assert sent_us(found) == 5050 + 500

    def test_many_programs_share_the_room(self):
        found = news_of(made(60, programs=30))
        assert [len(each.operations) for each in found] == [15] * operations.MOST_PROGRAMS
        assert all(sent_us(each) == 60 * 61 // 2 + 500 for each in found)

    def test_a_message_stays_small_whatever_names_the_trace_has(self):
        seen = TraceContents(has_names=True, spans=[LaunchSpan("jit_f", 1, 0, 0, 10**9)])
        for i in range(1_000):
            seen.work(DeviceLaunch("jit_f", 1, 0), i, i + 1000, f"{i}" * 3000)
        assert len(encode(news_of(seen)[0])) < MAX_TELEMETRY // 16

    def test_the_program_is_the_one_that_was_launched(self):
        seen = TraceContents(has_names=True, spans=[LaunchSpan("jit_f", 1, 0, 0, 10_000, number=4)])
        seen.ops.append(Op("jit_f", 1, 0, "all-reduce.1", 0, 5_000))
        loaded = [LoadedExecutable("jit_f", "old", 3, frozenset()), LoadedExecutable("jit_f", "new", 4, None)]
        (found,) = news_of(seen, loaded)
        assert (found.fingerprint, found.operations[0].kind) == ("new", "collective")

    def test_programs_that_are_read_after_the_window_are_reported_then(self):
        """What was sent under a name alone is taken back; programs that are not told apart stay together."""
        shown = operations.Shown(made(2, programs=2), 5)
        first = shown.news((), {})
        assert [(each.program, each.fingerprint) for each in first] == [("jit_0", None), ("jit_1", None)]
        assert shown.news((), {}) == [] and not shown.is_final
        copy = {"op.1": ExecutedOperation("copy", "train.py:3")}
        loaded = [
            LoadedExecutable(*each, None, None) for each in (("jit_0", "a"), ("jit_1", "b"), ("jit_1", "c"))
        ]
        gone, later = shown.news(loaded, {("jit_0", "a"): copy})
        assert (gone.program, gone.fingerprint, gone.launches) == ("jit_0", None, 0)
        assert (later.program, later.fingerprint, later.at_ms) == ("jit_0", "a", 5)
        assert [(each.kind, each.source) for each in later.operations] == [("copy", "train.py:3"), ("", "")]
        assert times(later) == times(first[0]) and shown.is_final and shown.news(loaded, {}) == []

    def test_launches_that_the_window_cuts_off_are_left_out(self):
        seen = made(3)
        seen.cut.add(("jit_0", 0))
        assert news_of(seen) == []
