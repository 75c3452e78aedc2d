"""Windows of the profiler: what is read of a trace, what is sent of it, and when windows are taken."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from itertools import pairwise
from textwrap import dedent
from types import SimpleNamespace

import pytest

from jaxtop import traces, wire
from jaxtop.traces.parts import LaunchSpan, Op, TraceContents
from jaxtop.wire import MAX_TELEMETRY, Window, encode
from jaxtop_agent.core import budget
from jaxtop_agent.core.board import Board, Topology
from jaxtop_agent.core.threads import WakeEvent
from jaxtop_agent.profiler import rows, trace
from jaxtop_agent.profiler.load import seconds_between
from jaxtop_agent.profiler.lock import HeldLock
from jaxtop_agent.profiler.schedule import (
    FIRST_LAUNCHES,
    FIRST_TRIES,
    FIRST_WINDOWS,
    LIMITS_UNDER_GIL,
    RENEWALS_CPU_S,
    RENEWALS_OVER_S,
    RENEWED_CPU_S,
    SLOT_S,
    TIME_SHARE,
    Schedule,
    WindowResult,
    why_dangerous,
)
from jaxtop_agent.profiler.session import ProfilerSession, Refused
from jaxtop_agent.profiler.worker import WindowThread
from jaxtop_agent.programs.loaded_executables import LoadedExecutable, Numbers
from tests import builders, patience, support
from tests.made.xspace import Event, plane, space
from tests.support import PYTHON, ROOT

# One process imports JAX and reads all traces.
pytestmark = [pytest.mark.jax, pytest.mark.together("traces")]

FOLDER = ROOT / "tests" / "data" / "traces"
BLANK = Window(0, 1000, slot=7)
NOTHING_KNOWN = traces.WantedCollectives({})


def profile(raw):
    import jax

    return jax.profiler.ProfileData.from_serialized_xspace(raw)


def window_of(seen, devices, loaded=(), limit=512, blank=BLANK):
    return rows.message(seen, devices, loaded, limit, blank)


@pytest.fixture(params=["0.10.2", "0.8.0"])
def captured(request):
    """What two processes saw of the same three launches."""
    windows = []
    for index, devices in ((0, [0, 1]), (1, [2048, 2049])):
        raw = (FOLDER / f"cpu-jax-{request.param}-process-{index}.pb").read_bytes()
        windows.append(window_of(traces.read("cpu", profile(raw), NOTHING_KNOWN, {}), devices))
    return windows


class TestCapturedOnCpus:
    def test_processes_agree_on_launches_and_rows(self, captured):
        mine, theirs = captured
        assert [each.number for each in mine.launches] == [each.number for each in theirs.launches]
        assert len(mine.launches) == 3 and mine.programs == theirs.programs == (("jit_on_each_device", None),)
        keys = [[(row.launch, window.ops[row.op], row.round) for row in window.rounds] for window in captured]
        assert sorted(keys[0]) == sorted(keys[1])

    def test_a_loop_gives_a_row_for_each_of_its_rounds(self, captured):
        for window in captured:
            first = [(window.ops[row.op], row.round) for row in window.rounds if row.launch == 0]
            assert first == [
                (op, n) for op, n in (("psum.15", 0), *(("psum.13", n) for n in range(3)), ("ppermute.3", 0))
            ]

    def test_every_local_device_has_its_time(self, captured):
        for window in captured:
            assert all(len(row.durations_us) == 2 and None not in row.durations_us for row in window.rounds)

    def test_who_came_late_waited_least(self, captured):
        waited, late = (
            next(row for row in window.rounds if row.launch == 2 and window.ops[row.op] == "psum.15")
            for window in captured
        )
        assert min(waited.durations_us) > 150_000
        assert max(late.durations_us) < 50_000

    def test_collectives_take_no_more_than_their_launch(self, captured):
        for window in captured:
            for each in window.launches:
                assert 0 < each.exposed_us <= each.collective_us <= each.duration_us


@pytest.mark.parametrize("version", ["0.10.2", "0.8.0"])
@pytest.mark.parametrize("most", [1, 3_000, 1 << 20])
def test_a_trace_in_pieces_has_what_it_has_in_one(version, most, monkeypatch):
    """Whatever the size of a piece; it is never smaller than the names in it."""
    import jax

    monkeypatch.setattr(trace, "PIECE_BYTES", most)
    raw = (FOLDER / f"cpu-jax-{version}-process-0.pb").read_bytes()
    sizes = []

    def parse(piece):
        sizes.append(len(piece))
        return jax.profiler.ProfileData.from_serialized_xspace(piece)

    whole, pieces = ([*each.planes] for each in (profile(raw), trace.ProfileTrace(raw, parse, 1.0)))
    assert [each.name for each in pieces] == [each.name for each in whole]
    for plane_in_pieces, its_plane in zip(pieces, whole, strict=True):
        for in_pieces, line in zip(plane_in_pieces.lines, its_plane.lines, strict=True):
            assert in_pieces.name == line.name
            for ours, theirs in zip(in_pieces.events, line.events, strict=True):
                assert (ours.name, ours.start_ns, ours.duration_ns) == (
                    theirs.name, theirs.start_ns, theirs.duration_ns
                )  # fmt: skip
                assert dict(ours.stats) == dict(theirs.stats)
    lines = sum(len([*line.events]) > 0 for its_plane in whole for line in its_plane.lines)
    assert len(sizes) == lines if most == 1 << 20 else max(sizes) < len(raw)


@pytest.mark.newest
def test_a_script_that_turns_warnings_into_errors_is_not_aborted_by_a_window():
    """Since Python 3.12 the types of JAX's reader warn when they are made, and an error aborts there."""
    text = """
        import warnings
        import jax
        from jaxtop_agent import jaxprivate
        filters = [*warnings.filters]
        profiler = jaxprivate.Profiler()
        assert warnings.filters == filters
        session = profiler.start()
        jax.jit(lambda x: x @ x)(jax.numpy.ones((50, 50))).block_until_ready()
        profile = profiler.parse(profiler.stop(session))
        print(sum(len(dict(event.stats)) > 0 for plane in profile.planes
                  for line in plane.lines for event in line.events) > 0)
    """
    done = support.run(PYTHON, "-W", "error", "-c", dedent(text))
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_the_name_of_a_thread_is_not_parsed_by_jax():
    """Linux cuts names within a character; JAX 0.8 aborts the process then, and 0.10 raises an error."""
    import jax

    raw = (FOLDER / "cpu-jax-0.10.2-process-0.pb").read_bytes()
    whole = traces.read("cpu", profile(raw), NOTHING_KNOWN, {})
    name = b"tf_XLAPjRtCpuClient"

    def parse(piece):
        assert name[:-1] not in piece
        return jax.profiler.ProfileData.from_serialized_xspace(piece)

    cut = trace.ProfileTrace(raw.replace(name, name[:-1] + b"\xc3"), parse, 1.0)
    assert any("tf_XLAPjRtCpuClien\ufffd" in line.name for each in cut.planes for line in each.lines)
    assert traces.read("cpu", cut, NOTHING_KNOWN, {}).spans == whole.spans


def test_a_trace_is_freed_where_the_script_has_switched_off_the_garbage_collector():
    """That of a capture may have hundreds of megabytes."""
    import jax

    raw = (FOLDER / "cpu-jax-0.10.2-process-0.pb").read_bytes()
    read = trace.ProfileTrace(raw, jax.profiler.ProfileData.from_serialized_xspace, 1.0)
    freed = weakref.ref(read)
    gc.disable()
    try:
        traces.read("cpu", read, NOTHING_KNOWN, {}, has_names=True)
        del read
        assert freed() is None
    finally:
        gc.enable()


def test_of_a_large_trace_the_beginning_is_read_as_if_it_had_been_stopped_earlier():
    import jax

    raw = (FOLDER / "cpu-jax-0.10.2-process-0.pb").read_bytes()
    parse = jax.profiler.ProfileData.from_serialized_xspace
    whole = traces.read("cpu", trace.ProfileTrace(raw, parse, 1.0), NOTHING_KNOWN, {}, has_names=True)
    ends = sorted({span.run: span.end for span in whole.spans}.values())
    cut = trace.ProfileTrace(raw, parse, 1.0)
    cut.until_ns = (ends[-2] + ends[-1]) / 2
    seen = traces.read("cpu", cut, NOTHING_KNOWN, {}, has_names=True)
    last = max(whole.spans, key=lambda span: span.end)
    assert {span.run for span in seen.spans} == {span.run for span in whole.spans} - {last.run}
    assert set(seen.spans) <= set(whole.spans)
    size = sum(line.size for each in cut.planes for line in each.lines)
    assert trace.ProfileTrace(raw, parse, 2.0, size / 4).until_ns == pytest.approx(0.5e9)


def test_a_launch_whose_number_is_negative_is_whole_although_its_beginning_has_it_unsigned():
    """PJRT begins to count anywhere; in half of all processes the numbers are negative."""

    def event(name, start, lasts, **said):
        return SimpleNamespace(name=name, start_ns=start, duration_ns=lasts, stats=[*said.items()])

    on = {"run_id": -5, "device_ordinal": 0}
    events = [
        event("CommonPjRtLoadedExecutable::ExecuteHelper", 0, 10, _ct=5, _c=(1 << 64) - 5),
        event("dot.1", 20, 30, hlo_module="jit_step", **on),
        event("ThunkExecutor::Execute (wait for completion)", 20, 40, **on),
    ]
    line = SimpleNamespace(name="python", events=events)
    its_profile = SimpleNamespace(planes=[SimpleNamespace(name="/host:CPU", lines=[line])])
    seen = traces.read("cpu", its_profile, NOTHING_KNOWN, {})
    assert seen.spans == [LaunchSpan("jit_step", -5, 0, 20, 60)] and not seen.cut


# As versions of JAX put it: what the captured traces of CPUs have is the same for all of PJRT's clients.
ENQUEUED = ("PjRtStreamExecutorLoadedExecutable::EnqueueExecution", ("_c",))
EXECUTED = ("CommonPjRtLoadedExecutable::Execute (jit_step)", ("run_id", "_p"))
EXECUTED_ON_ONE = ("[1] CommonPjRtLoadedExecutable::Execute (jit_step)", ("_c",))


def gpu_space(call="cuLaunchKernelEx", launch=ENQUEUED):
    name, keys = launch
    host = [
        Event(name, 10 + 100 * run, 50, {"_ct": 5, "_pt": 5} | dict.fromkeys(keys, 70 + run))
        for run in range(3)
    ]
    kernels = {"Stream #20(Compute)": [], "Stream #24(NCCL)": []}
    for run in range(3):
        for number, (name, op, start, lasts) in enumerate(
            (
                ("fusion_1", "fusion.1", 20, 10),
                ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "all-reduce-start.1", 25, 20),
            )
        ):
            correlation = 100 * run + number
            host.append(Event(call, 12 + 100 * run + number, 1, {"correlation_id": correlation}))
            stream = list(kernels)[number]
            said = {"hlo_op": op, "hlo_module": "jit_step", "correlation_id": correlation}
            kernels[stream].append(Event(name, start + 100 * run, lasts, said))
    return space(plane("/device:GPU:1", kernels), plane("/host:CPU", {"python": host}))


class TestAcceleratorsAsDocumented:
    def test_kernels_of_a_gpu_find_their_run_by_the_call_that_launched_them(self):
        seen = traces.read("gpu", profile(gpu_space()), NOTHING_KNOWN, {1: 11})
        window = window_of(seen, [10, 11])
        assert [each.start_us for each in window.launches] == [20, 120, 220]
        assert window.programs == (("jit_step", None),) and window.ops == ("all-reduce-start.1",)
        assert [row.durations_us for row in window.rounds] == [(None, 20)] * 3
        assert (window.launches[0].duration_us, window.launches[0].collective_us) == (25, 20)
        assert window.launches[0].exposed_us == 15

    @pytest.mark.parametrize(
        "call",
        [
            "cuLaunchKernel",
            "cuLaunchKernelEx",
            "cuGraphLaunch (CudaGraph:7)",
            "cuMemcpyDtoDAsync_v2",
            "cuMemsetD32Async",
            "hipModuleLaunchKernel",
            "hipExtModuleLaunchKernel",
            "hipMemcpyAsync",
        ],
    )
    def test_whichever_call_put_work_on_a_gpu_it_is_found(self, call):
        seen = traces.read("gpu", profile(gpu_space(call)), NOTHING_KNOWN, {1: 11})
        assert [each.start_us for each in window_of(seen, [11]).launches] == [20, 120, 220]
        assert [*seen.executed] == [("jit_step", run) for run in range(3)]

    @pytest.mark.parametrize("launch", [ENQUEUED, EXECUTED, EXECUTED_ON_ONE])
    def test_launches_are_known_by_the_names_of_each_version(self, launch):
        seen = traces.read("gpu", profile(gpu_space(launch=launch)), NOTHING_KNOWN, {1: 11})
        assert [each.start_us for each in window_of(seen, [11]).launches] == [20, 120, 220]
        assert [*seen.executed] == [("jit_step", run) for run in range(3)]

    def test_kernels_of_launches_that_nothing_names_are_said_to_be_such(self):
        kernels = [
            Event("gemm", at, 2, {"hlo_op": op, "hlo_module": "jit_step"}) for at, op in ((5, "a"), (9, "b"))
        ]
        raw = space(plane("/device:GPU:1", {"Stream #20(Compute)": kernels}))
        window = window_of(traces.read("gpu", profile(raw), NOTHING_KNOWN, {1: 11}), [11])
        assert window.note == "100% of device time could not be assigned to launches"
        assert window.unassigned_permille == 1000 and not window.launches

    def test_of_an_async_collective_on_a_tpu_the_wait_for_it_counts(self):
        lines = {
            "Steps": [Event("1", 0, 100, {})],
            "XLA Modules": [Event("jit_step(1234)", 10, 80, {"run_id": 5})],
            "XLA Ops": [
                Event("%all-reduce-start.1 = f32[8]{0} all-reduce-start(f32[8]{0} %p)", 10, 1, {}),
                Event("%while.2 = f32[8] while(...)", 11, 70, {}),
                Event("%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p)", 11, 29, {}),
                Event("%all-reduce-done.1 = f32[8]{0} all-reduce-done(...)", 40, 20, {}),
                Event("%all-gather.3 = f32[8]{0} all-gather(...)", 70, 10, {}),
            ],
            "Async XLA Ops": [Event("%all-reduce-start.1", 10, 50, {})],
        }
        raw = space(plane("/device:TPU:0", lines), plane("/device:TPU:0 SparseCore 0", lines))
        window = window_of(traces.read("tpu", profile(raw), NOTHING_KNOWN, {}), [0])
        assert [(each.number, each.start_us) for each in window.launches] == [(None, 10)]
        assert {window.ops[row.op]: row.durations_us for row in window.rounds} == {
            "all-reduce-start.1": (20,),
            "all-gather.3": (10,),
        }
        assert (window.launches[0].collective_us, window.launches[0].exposed_us) == (60, 31)

    @pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu", "other"])
    def test_a_trace_without_devices_says_so(self, platform):
        window = window_of(
            traces.read(platform, profile(space(plane("/host:CPU", {}))), NOTHING_KNOWN, {}), [0]
        )
        assert (window.launches, window.rounds, window.note) == ((), (), "no device events")


def seen_of(launches):
    """(module, run, collectives) each, on device 0."""
    seen = TraceContents(is_shared=True)
    for place, (module, run, count) in enumerate(launches):
        start = place * 1_000_000
        seen.spans.append(LaunchSpan(module, run, 0, start, start + 900_000))
        seen.ops += [Op(module, run, 0, f"all-reduce.{i}", start + i, start + i + 1000) for i in range(count)]
    return seen


def chosen(window):
    return {window.launches[row.launch].number for row in window.rounds}


class TestWhatIsSent:
    def test_hosts_choose_the_same_launches_though_their_windows_differ(self):
        runs = range(1000, 1040)
        mine = window_of(seen_of([("jit_f", run, 10) for run in runs[:-2]]), [0], limit=100)
        theirs = window_of(seen_of([("jit_f", run, 10) for run in runs[2:]]), [0], limit=100)
        assert len(chosen(mine)) == 10 and len(chosen(mine) & chosen(theirs)) >= 7
        assert mine.unsent == 380 - 100

    def test_each_program_has_its_turn(self):
        launches = [("jit_often", 2 * i, 10) for i in range(50)] + [("jit_rarely", 51, 10)]
        assert 51 in chosen(window_of(seen_of(launches), [0], limit=20))

    def test_of_a_launch_that_is_too_large_every_row_is_sent_in_time(self):
        seen = seen_of([("jit_f", 7, 300)])
        sent = set()
        for slot in range(40):
            window = window_of(seen, [0], limit=32, blank=Window(0, 1000, slot=slot))
            assert len(window.rounds) == 32 and window.unsent == 268
            assert window == window_of(seen, [0], limit=32, blank=Window(0, 1000, slot=slot))
            sent |= {window.ops[row.op] for row in window.rounds}
        assert len(sent) > 290

    @pytest.mark.parametrize(("processes", "devices"), [(1, 8), (16, 8), (1024, 4), (1, 4096)])
    def test_a_message_stays_within_what_viewers_are_ready_for(self, processes, devices):
        seen = TraceContents()
        for run in range(300):
            for device in range(devices if run < 3 else 1):
                seen.spans.append(LaunchSpan("jit_f", run, device, run * 10**9, run * 10**9 + 10**8))
                seen.ops += [
                    Op("jit_f", run, device, f"all-reduce.{i}", run * 10**9 + i, run * 10**9 + 10**8)
                    for i in range(10)
                ]
        limit = rows.room(processes, devices)
        window = window_of(seen, list(range(devices)), limit=limit)
        assert window.rounds and len(window.rounds) <= limit
        assert len(encode(window)) < MAX_TELEMETRY

    def test_a_launch_that_the_window_cut_on_one_device_is_left_out(self):
        seen = seen_of([("jit_f", 1, 2), ("jit_f", 2, 2)])
        seen.cut.add(("jit_f", 2))
        assert [each.number for each in window_of(seen, [0]).launches] == [1]


def program(name, fingerprint, *ops, number=None):
    return LoadedExecutable(name, fingerprint, number, frozenset(ops))


class TestWhichProgram:
    def test_the_inventory_says_what_is_a_collective(self):
        raw = (FOLDER / "cpu-jax-0.10.2-process-0.pb").read_bytes()
        known = [program("jit_on_each_device", "abc", "psum.15", "psum.13")]
        wanted = traces.WantedCollectives(
            {"jit_on_each_device": {"psum.15": "psum.15", "psum.13": "psum.13"}}
        )
        window = window_of(traces.read("cpu", profile(raw), wanted, {}), [0, 1], known)
        assert window.ops == ("psum.15", "psum.13")
        assert window.programs == (("jit_on_each_device", "abc"),)

    def test_what_ends_a_collective_counts_under_its_name(self):
        wanted = traces.WantedCollectives(
            {"jit_f": {"async-start.1": "async-start.1", "async-done.9": "async-start.1"}}
        )
        assert wanted.op("jit_f", "async-done.9") == "async-start.1"
        assert wanted.op("jit_f", "all-reduce.1") is None
        assert wanted.op("jit_unread", "all-reduce-done.1") == "all-reduce-start.1"

    def test_what_an_incomplete_inventory_lacks_is_known_by_its_name(self):
        wanted = traces.WantedCollectives({"jit_f": {"a2a": "a2a"}}, frozenset({"jit_f"}))
        assert wanted.op("jit_f", "a2a") == "a2a"
        assert wanted.op("jit_f", "all-reduce.1") == "all-reduce.1"

    def test_programs_of_one_name_are_distinguished_by_their_operations_or_not_at_all(self):
        both = [program("jit_f", "a", "all-reduce.0"), program("jit_f", "b", "all-gather.0")]
        same = [program("jit_f", "a", "all-reduce.0"), program("jit_f", "b", "all-reduce.0")]
        seen = seen_of([("jit_f", 1, 1)])
        assert window_of(seen, [0], both).programs == (("jit_f", "a"),)
        assert window_of(seen, [0], same).programs == (("jit_f", None),)

    def test_the_compilers_number_tells_programs_of_one_name_apart(self):
        """Large ones have none: theirs lies between those of the programs compiled before and after."""
        numbered = [program("jit_f", "a", number=14), program("jit_f", "b", number=16)]
        large = [program("jit_f", "a"), program("jit_g", "g", number=15), program("jit_f", "b")]
        side_by_side = [program("jit_f", "a"), program("jit_f", "b"), program("jit_g", "g", number=20)]
        cleared = [program("jit_g", "g", number=15), program("jit_f", "a"), program("jit_g", "h", number=9)]
        for loaded, number, found in (
            (numbered, 14, "a"),
            (numbered, 16, "b"),
            (numbered, 15, None),
            (large, 14, "a"),
            (large, 16, "b"),
            (side_by_side, 12, None),
            (cleared, 12, "a"),
        ):
            seen = TraceContents(spans=[LaunchSpan("jit_f", 1, 0, 0, 900, number)])
            assert window_of(seen, [0], loaded).programs == (("jit_f", found),)

    def test_variants_without_numbers_are_distinguished_once_one_was_launched_alone(self):
        """The numbers of large programs are learned from launches while their function has one program."""
        first, second, third = (program("jit_f", each) for each in "abc")
        numbers = Numbers()

        def shown(loaded, number):
            loaded = numbers.learn(loaded, [("jit_f", number)])
            seen = TraceContents(spans=[LaunchSpan("jit_f", 1, 0, 0, 900, number)])
            (found,) = window_of(seen, [0], loaded).programs
            return found[1]

        assert shown([first, second], 14) is None
        assert shown([first], 14) == "a"
        assert shown([], 14) is None  # while programs are read
        assert [shown([first, second], each) for each in (14, 16)] == ["a", "b"]
        assert [shown([first, second, third], each) for each in (14, 16, 18)] == ["a", "b", "c"]
        assert shown([first], 30) == "a"  # compiled again after `jax.clear_caches()`

    def test_a_part_of_a_large_program_is_enough_to_know_it(self):
        """A window sends some of its rows; and of a program, other programs of its name are told apart."""
        ops = [f"all-reduce.{i}" for i in range(3000)]
        loaded = [program("jit_f", "a", *ops), program("jit_f", "b", "all-gather.0")]
        assert window_of(seen_of([("jit_f", 1, 2016)]), [0], loaded).programs == (("jit_f", "a"),)


class TestTheLock:
    def test_who_wants_the_lock_rings_and_has_it_when_the_window_closes(self):
        real = threading.Lock()
        owner, rang, entered = SimpleNamespace(lock=real), threading.Event(), threading.Event()

        def users():
            with owner.lock:
                entered.set()

        with HeldLock(owner, rang.set) as lock:
            user = threading.Thread(target=users)
            user.start()
            assert rang.wait(patience.left()) and lock.is_wanted and not entered.is_set()
        user.join(patience.left())
        assert entered.is_set() and owner.lock is real and not real.locked()

    def test_a_lock_that_is_taken_is_left_alone(self):
        real = threading.Lock()
        owner = SimpleNamespace(lock=real)
        with real, HeldLock(owner, lambda: None) as lock:
            assert lock is None and owner.lock is real
        assert not real.locked()

    @pytest.mark.parametrize("moment", ["acquire", "stop", "release"])
    def test_a_forked_child_has_the_lock_to_itself(self, moment):
        """Wherever the thread that takes the window was when the process forked."""
        reached, go_on = threading.Event(), threading.Event()

        class Lock:
            real = threading.Lock()

            def acquire(self, blocking=True, timeout=-1):
                return self.real.acquire(blocking, timeout) and at("acquire")

            def release(self):
                at("release")
                self.real.release()

            __enter__ = acquire

            def __exit__(self, *_):
                self.release()

        def at(place):
            if place == moment:
                reached.set()
                go_on.wait(patience.left())
            return True

        state, wakeup = SimpleNamespace(lock=Lock()), WakeEvent()
        profiler = SimpleNamespace(state=state, in_use=lambda: None, start=list, stop=lambda _: at("stop"))
        sessions = ProfilerSession(profiler, wakeup, lambda: None)
        thread = threading.Thread(target=sessions.take, args=(0, lambda: True))
        thread.start()
        assert reached.wait(patience.left())
        child = os.fork()
        if not child:
            signal.alarm(10)
            sessions.after_fork()
            with state.lock:
                os._exit(7)
        go_on.set()
        thread.join()
        wakeup.close()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert type(state.lock) is Lock and not state.lock.real.locked()


def test_what_is_known_before_a_trace_is_read_is_sent_with_it():
    blank = Window(
        5, 1000, slot=7, note="why", is_capture=True, common_us=3, clock_error_us=4, every_ms=1_800_000
    )
    sent = window_of(TraceContents(), [0], blank=blank)
    known = ("at_ms", "duration_us", "slot", "note", "is_capture", "common_us", "clock_error_us", "every_ms")
    assert all(getattr(sent, field) == getattr(blank, field) for field in known)


class TestWhereTheEndOfAProfileCanEndTheRun:
    GRAPHS, SUBSCRIBERS = "--xla_gpu_enable_command_buffer", "--xla_gpu_enable_cupti_multi_subscriber"

    @pytest.mark.parametrize(
        ("policy", "vendor", "flags", "is_dangerous"),
        [
            ("auto", "nvidia", "", True),
            ("auto", "nvidia", "--xla_dump_to=/tmp", True),
            ("auto", "nvidia", f"{GRAPHS}=FUSION,CUBLAS", True),
            ("auto", "nvidia", f"{GRAPHS}= {GRAPHS}=FUSION", True),  # XLA takes the last one
            ("auto", "nvidia", f"{SUBSCRIBERS}=false", True),
            ("auto", "nvidia", f"--xla_dump_to=/tmp {GRAPHS}=", False),
            ("auto", "nvidia", f"{SUBSCRIBERS}=true", False),
            ("auto", "nvidia", SUBSCRIBERS, False),
            ("on request", "nvidia", "", False),
            ("sampled", "nvidia", "", False),
            ("auto", "amd", "", False),
            ("auto", "tpu", "", False),
            ("auto", None, "", False),
        ],
    )
    def test_that_is_on_nvidia_gpus_with_cuda_graphs(self, policy, vendor, flags, is_dangerous):
        assert (why_dangerous(policy, vendor, flags) is not None) == is_dangerous

    def test_no_profile_is_started_there(self):
        started = []
        profiler = SimpleNamespace(start=lambda: started.append(1), start_full=lambda: started.append(2))
        sessions = ProfilerSession(profiler, WakeEvent(), lambda: "it would end the run")
        with pytest.raises(Refused, match="it would end the run"):
            sessions.take(1.0, lambda: False)
        with pytest.raises(Refused, match="it would end the run"):
            sessions.capture(1.0, lambda: False, lambda: None)
        assert started == []

    def test_requests_are_refused_with_the_reason(self, monkeypatch):
        monkeypatch.delenv("XLA_FLAGS", raising=False)
        device = wire.Device(0, "NVIDIA H100 80GB HBM3", "gpu")
        board = Board(builders.hello(0))
        board.sampler.topology = Topology(0, 1, "gpu", (device,), None)
        thread = WindowThread(board, SimpleNamespace(launches=None), "auto")
        thread._profiler = SimpleNamespace(is_noisy=False, has_server=lambda: False)
        assert not thread._is_sampled(board.sampler.topology)
        assert board.sources["collectives"].startswith("off: unsafe with CUDA graphs")
        assert not board.windows.can_capture


def result(seconds=0.1, cpu=0.02, events=500, launches=2, step=0.02):
    return WindowResult(seconds, cpu, events, launches, step)


def begun():
    """The schedule of a viewer whose first windows have been taken."""
    schedule = Schedule()
    for _ in range(FIRST_WINDOWS):
        schedule.learn(result(cpu=0.03))
    assert schedule.level > 0
    return schedule


class TestSchedule:
    def test_where_little_memory_is_left_windows_are_small(self):
        schedule = Schedule()
        usual = schedule.most_events(requested=True)
        schedule.bound(13_000_000)
        assert schedule.most_events() == schedule.most_events(requested=True) == 1_000
        schedule.bound(None)
        assert schedule.most_events(requested=True) == usual

    def test_slots_of_a_dear_host_are_slots_of_all(self):
        cheap, dear = Schedule(), Schedule()
        for _ in range(FIRST_WINDOWS):
            cheap.learn(result())
            dear.learn(result(cpu=0.5))
        assert dear.level > cheap.level
        now = 1_000_000.3
        slots = {cheap.next_slot(now + i * SLOT_S) for i in range(400)}
        assert {dear.next_slot(now + i * SLOT_S) for i in range(100)} <= slots

    def test_the_time_to_the_next_window_is_known_from_the_first_one_on(self):
        schedule = Schedule()
        schedule.learn(result(cpu=0.05))
        assert schedule.level == 0 and schedule.every_s > SLOT_S
        dear = begun()
        dear.learn(result(cpu=0.5))
        assert dear.next_slot(1000.0) * SLOT_S - 1000.0 <= dear.every_s > schedule.every_s

    def test_a_requested_window_begins_when_the_request_says_or_else_on_a_beat(self):
        """Wherever between two beats the requests reach the hosts."""
        schedule, wanted = Schedule(), 1_000_001.07
        assert {schedule.requested_at(wanted, wanted - early) for early in (0.01, 0.3, 0.7, 5.0)} == {wanted}
        for now in (wanted + 0.01, wanted - 3600.0):  # too late, or by a clock that differs
            assert schedule.requested_at(wanted, now) == schedule.requested_at(None, now) > now

    def test_first_windows_follow_each_other_and_then_keep_to_their_share(self):
        schedule = Schedule()
        slots = []
        now = 1000.0
        for _ in range(FIRST_WINDOWS + 3):
            slots.append(schedule.next_slot(now))
            now = slots[-1] * SLOT_S + 0.1
            schedule.learn(result(seconds=0.2, cpu=0.05))
        assert [after - before for before, after in pairwise(slots[:FIRST_WINDOWS])] == [1] * (
            FIRST_WINDOWS - 1
        )
        period = SLOT_S * (slots[-1] - slots[-2])
        assert 0.05 / period <= budget.WINDOWS and 0.2 / period <= TIME_SHARE

    def test_windows_of_a_single_launch_follow_each_other_until_they_hold_enough_for_a_verdict(self):
        schedule = Schedule()
        for _ in range(FIRST_LAUNCHES):
            assert schedule.level == 0
            schedule.learn(result(launches=1))
        assert schedule.level > 0
        schedule = Schedule()
        while schedule.level == 0:
            schedule.learn(result(cpu=0.2, launches=1))
        assert schedule._windows < FIRST_WINDOWS

    def test_who_comes_again_and_again_is_no_reason_for_more_windows(self):
        schedule = Schedule()
        schedule.begin(1000.0)
        for _ in range(FIRST_WINDOWS):
            schedule.learn(result())
        schedule.begin(1010.0)
        assert schedule.level > 0
        schedule.begin(2000.0)
        assert schedule.level == 0

    def test_each_of_several_changes_of_the_rhythm_repeats_the_first_windows(self):
        schedule = begun()
        for now in (1000.0, 1020.0, 1040.0, 1060.0):
            schedule.renew(now)
            assert schedule.level == 0, now
            for _ in range(FIRST_WINDOWS):
                schedule.learn(result(cpu=0.03))
            assert schedule.level > 0

    def test_what_changes_of_the_rhythm_cost_is_bounded(self):
        schedule, spent = begun(), 0.0
        for i in range(60):
            schedule.renew(1000.0 + 20 * i)
            while schedule.level == 0:
                schedule.learn(result(cpu=0.11))
                spent += 0.11
        assert RENEWALS_CPU_S <= spent <= RENEWALS_CPU_S * (2 + 1200 / RENEWALS_OVER_S)
        schedule.renew(1200 + 1000.0 + RENEWALS_OVER_S)
        assert schedule.level == 0
        schedule.learn(result(cpu=RENEWED_CPU_S + 0.01))
        assert schedule.level > 0

    def test_a_window_grows_until_it_holds_a_step(self):
        schedule = Schedule()
        lengths = []
        for _ in range(5):
            lengths.append(schedule.length(None, 100.0))
            schedule.learn(result(seconds=lengths[-1], events=100, launches=0, step=None))
        assert lengths == sorted(lengths) and lengths[-1] >= 8 * lengths[0]
        schedule.learn(result(seconds=1.0, events=100, step=0.5))
        assert 1.25 <= schedule.length(None, 100.0) <= 1.4

    def test_steps_that_became_slower_are_remembered_where_none_was_counted_since(self):
        schedule = Schedule()
        schedule.learn(result(seconds=1.0, events=100, step=0.15))
        assert schedule.length(0.5, 100.0) >= 1.25
        assert schedule.length(None, 100.0) >= 1.25
        assert schedule.length(0.15, 100.0) < 1.25

    def test_a_dense_trace_makes_windows_short(self):
        schedule = Schedule(LIMITS_UNDER_GIL)
        schedule.learn(result(seconds=0.1, events=4000, step=0.03))
        assert schedule.length(None) <= 0.06

    def test_where_no_step_fits_windows_end_until_somebody_comes_anew(self):
        schedule = Schedule(LIMITS_UNDER_GIL)
        schedule.see(0.5)  # by the hook: no window ever held a step
        for _ in range(FIRST_TRIES):
            schedule.learn(result(seconds=0.1, events=4000, launches=0, step=None))
        assert schedule.is_too_dense
        schedule.begin(1000.0)
        assert not schedule.is_too_dense

    def test_the_launch_interval_is_that_of_programs_with_collectives(self):
        launched = {"add": 400, "step": 40, "eval": 1}
        assert seconds_between(4.0, launched, {"step"}) == pytest.approx((0.1, 0.1))
        assert seconds_between(4.0, {"add": 0, "step": 0, "eval": 0}, {"step"}) == (None, None)

    def test_a_rarer_function_with_collectives_is_no_step_of_the_faster(self):
        launched = {"add": 400, "step": 40, "agree": 2}
        assert seconds_between(4.0, launched, {"step", "agree"}) == pytest.approx((2.0, 0.1))
        assert seconds_between(4.0, launched, set()) == pytest.approx((0.1, 0.1))
