"""Traces of accelerators: their launches and waits, beside what was planted in them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from jaxtop import traces
from jaxtop.traces.parts import ENDS_APART, NO_CALL, NOT_MATCHED
from jaxtop.traces.xspace import Trace
from tests.made.traces import PERIOD_US, PLATFORMS, PROGRAM, REDUCE, Launch, Made, launches
from tests.made.xspace import Event, plane, space
from tests.support import SOAK

NOTHING_KNOWN = traces.WantedCollectives({})


def seen_of(platform, made, raw=None):
    name, make = PLATFORMS[platform]
    return traces.read(name, Trace(make(made) if raw is None else raw), NOTHING_KNOWN, {})


def measured(seen):
    """The waits of each whole launch of the program by device, in microseconds, in order of time."""
    by_run = {}
    for op in seen.ops:
        if op.module == PROGRAM and op.name == REDUCE and (op.module, op.run) not in seen.cut:
            by_run.setdefault(op.run, {})[op.device] = None if op.duration is None else op.duration / 1000
    return [
        {device: lasted - min(of_run.values()) for device, lasted in of_run.items()}
        for _, of_run in sorted(by_run.items())
        if None not in of_run.values()
    ]


def planted(made):
    return [launch.waits() for launch in made.launches]


def is_equal(found, truth):
    """Within a hundredth, or a microsecond: the profiler's times have nanoseconds."""
    return found.keys() == truth.keys() and all(
        found[device] == pytest.approx(truth[device], rel=0.01, abs=1) for device in truth
    )


def are_right(found, truth):
    """Whether each wait is that of a launch, in order, so that only whole launches may be missing."""
    left = iter(truth)
    return all(any(is_equal(each, one) for one in left) for each in found)


@pytest.mark.parametrize("platform", PLATFORMS)
class TestLaunches:
    def test_waits_are_those_planted(self, platform):
        made = Made(launches(4, 6, late=2))
        seen = seen_of(platform, made)
        assert len(measured(seen)) == 6 and seen.unassigned == 0
        assert all(map(is_equal, measured(seen), planted(made)))

    def test_a_program_on_one_device_alone_shifts_nothing(self, platform):
        made = Made(launches(4, 6, late=1), alone=3)
        seen = seen_of(platform, made)
        assert all(map(is_equal, measured(seen), planted(made))) and len(measured(seen)) == 6

    def test_launches_from_before_the_trace_keep_their_order(self, platform):
        made = Made(launches(4, 6, late=3), ahead=2)
        seen = seen_of(platform, made)
        assert all(map(is_equal, measured(seen), planted(made))) and len(measured(seen)) == 6
        assert [(PROGRAM, run) in seen.executed for run in range(6)] == [False] * 2 + [True] * 4

    def test_without_the_host_launches_are_counted_on_each_device(self, platform):
        made = Made(launches(4, 6, late=0), has_host=False)
        seen = seen_of(platform, made)
        assert all(map(is_equal, measured(seen), planted(made))) and len(measured(seen)) == 6
        assert not seen.executed

    def test_without_the_host_a_device_that_began_later_is_shifted_by_the_ends_of_collectives(self, platform):
        """The trace of a device may begin after its first launch."""
        made = Made(launches(3, 6, late=0), has_host=False)
        shorter = [
            launch if place else Launch(dict(list(launch.arrivals.items())[:2]))
            for place, launch in enumerate(made.launches)
        ]
        seen = seen_of(platform, replace(made, launches=shorter))
        found = measured(seen)
        assert len(found) >= 4 and are_right(found, planted(made)[1:])

    def test_runs_that_fit_no_launch_are_left_out_and_counted(self, platform):
        """All of a device is shifted by half a step: its collectives end beside no others."""
        made = Made(launches(3, 6), has_host=False)
        odd = [
            Launch({**launch.arrivals, 2: launch.arrivals[2] + PERIOD_US * (0.5 if place else 0.25)})
            for place, launch in enumerate(made.launches)
        ]
        together = [replace(made, launches=[Launch({2: each.arrivals[2]}) for each in odd])]
        _, make = PLATFORMS[platform]
        others = replace(made, launches=[Launch({0: each.arrivals[0], 1: each.arrivals[1]}) for each in odd])
        raw = make(others) + b"".join(make(each) for each in together)
        seen = seen_of(platform, made, raw)
        assert seen.unassigned > 0.3 and seen.left_ns.keys() <= {ENDS_APART, NOT_MATCHED}
        assert all(2 not in each for each in measured(seen))

    @pytest.mark.long
    @pytest.mark.parametrize("lost", [0.02, 0.1, 0.5])
    def test_where_the_host_lost_events_nothing_wrong_is_measured(self, platform, lost):
        for seed in range(40 if SOAK else 15):
            made = Made(launches(4, 8, late=seed % 5, seed=seed), lost=lost, seed=seed)
            assert are_right(measured(seen_of(platform, made)), planted(made))


@pytest.mark.long
def test_in_random_traces_no_wait_is_wrong_and_no_other_device_comes_last():
    dice = random.Random(27)
    found = whole = 0
    for number in range(1_000 if SOAK else 300):
        platform = dice.choice([*PLATFORMS])
        devices = dice.randint(2, 4)
        made = Made(
            launches(
                devices,
                dice.randint(2, 7),
                late=dice.choice([None, *range(devices)]),
                late_us=dice.choice([2_000.0, 6_000.0, 70_000.0]),
                noise_us=dice.choice([20.0, 300.0, 3_000.0]),
                seed=number,
            ),
            alone=dice.choice([0, 0, 1, 5]),
            ahead=dice.choice([0, 0, 1, 3]),
            has_host=dice.random() < 0.8,
            lost=dice.choice([0.0, 0.0, 0.05, 0.3]),
            seed=number,
        )
        waits = measured(seen_of(platform, made))
        assert are_right(waits, planted(made)), (number, platform, made)
        found += len(waits)
        whole += len(made.launches)
    assert found > whole / 2  # most are measured, all the same


class TestNvidia:
    def test_a_collective_without_a_kernel_of_the_library_is_found_by_its_operation(self):
        """XLA reduces small arrays with kernels of its own; copies around those of a library are no part."""
        program: dict[str, int | str] = {"hlo_module": PROGRAM, "program_id": 3}

        def kernel(name, op, at, us, number):
            return Event(name, at, us, {"hlo_op": op, "correlation_id": number, **program})

        streams = {
            "Stream #1(Compute)": [
                kernel("AllReduceKernel", "all-reduce.1", 20, 5, 1),
                kernel("MemcpyD2D", "all-gather.2", 30, 1, 2),
            ],
            "Stream #2(NCCL)": [kernel("ncclDevKernel_AllGather", "all-gather.2", 32, 9, 3)],
        }
        calls = [Event("cuLaunchKernel", 11 + i, 0.5, {"correlation_id": i, **program}) for i in (1, 2, 3)]
        execute = Event("CommonPjRtLoadedExecutable::Execute (jit_step)", 10, 8, {"_pt": 5, "_p": 1})
        raw = space(plane("/device:GPU:0", streams), plane("/host:CPU", {"python": [execute, *calls]}))
        seen = traces.read("cuda", Trace(raw), NOTHING_KNOWN, {})
        assert {op.name: op.duration for op in seen.ops} == {"all-reduce.1": 5_000, "all-gather.2": 9_000}
        assert sum(end - start for each in seen.busy.values() for start, end in each) == 1_000
        assert not seen.cut  # each call has its kernel

    def test_kernels_of_a_graph_share_the_call_that_launched_it(self):
        made = Made(launches(2, 4, late=1))
        seen = seen_of("nvidia", made)
        assert all(map(is_equal, measured(seen), planted(made))) and len(measured(seen)) == 4

    def test_devices_of_other_processes_are_planes_without_events(self):
        """As a process that sees a part of the devices of its machine; its plane may have another number."""
        made = Made(launches(1, 4))
        name, make = PLATFORMS["nvidia"]
        raw = make(made).replace(b"/device:GPU:0", b"/device:GPU:5") + space(plane("/device:GPU:0", {}))
        seen = traces.read(name, Trace(raw), NOTHING_KNOWN, {5: 41})
        assert {span.device for span in seen.spans} == {41} and not seen.cut

    def test_kernels_between_those_of_known_launches_whose_calls_are_lost_are_counted(self):
        made = Made(launches(1, 6))
        name, make = PLATFORMS["rocm"]
        whole = traces.read(name, Trace(make(made)), NOTHING_KNOWN, {})
        lost = traces.read(name, Trace(make(replace(made, lost=0.4, seed=5))), NOTHING_KNOWN, {})
        assert whole.unassigned == 0 and lost.left_ns.keys() == {NO_CALL}
        assert lost.assigned_ns + lost.left_ns[NO_CALL] + lost.cut_ns == whole.assigned_ns


class TestTpu:
    def test_an_operation_across_a_correction_of_the_clock_takes_as_long_as_on_its_core(self):
        """The profiler fits the clock of a core to that of the host: an event may cover a jump of it."""

        def core(jump):
            ops = [
                Event("%fusion.1 = f32[] fusion()", 100, 50 + jump, {"device_duration_ps": 50_000_000}),
                Event("%all-reduce.1 = f32[] all-reduce()", 400, 200, {"device_duration_ps": 120_000_000}),
            ]
            return {"XLA Modules": [Event("jit_step(7)", 100, 500, {})], "XLA Ops": ops}

        raw = space(plane("/device:TPU:0", core(0)), plane("/device:TPU:1", core(90)))
        seen = traces.read("tpu", Trace(raw), NOTHING_KNOWN, {}, has_names=True)
        assert [named["fusion.1"].ns for named in seen.named.values()] == [50_000] * 2
        assert [(op.end, op.duration) for op in seen.ops] == [(600_000, 120_000)] * 2
        assert seen.assigned_ns == 2 * 170_000

    def test_a_collective_in_flight_and_a_barrier_count_as_time_in_collectives(self):
        made = Made(launches(2, 3, late=1))
        seen = seen_of("tpu", made)
        barriers = {on.device: each for on, each in seen.barriers.items() if on.run == 0}
        ((start, end),) = barriers[0]
        assert (end - start) / 1000 == pytest.approx(made.launches[0].waits()[0], abs=1)
        early = next(op for op in seen.ops if op.run == 0 and op.device == 0)
        assert early.arrived == start and early.start == end

    def test_a_transfer_between_slices_is_time_in_a_collective_and_sparse_cores_are_no_cores(self):
        """Megascale sends through the hosts; the core waits in the `-done`."""
        rendezvous = 'frontend_attributes={_xla_host_transfer_rendezvous="r1"}'
        ops = [
            Event("%recv = (f32[8]{0}, u32[], token[]) recv(token[] %t), channel_id=3", 10, 1, {}),
            Event("%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p)", 12, 20, {}),
            Event(f"%recv-done.4 = (f32[8]{{0}}, token[]) recv-done(%recv), {rendezvous}", 32, 30, {}),
        ]
        lines = {"XLA Modules": [Event("jit_step(1)", 10, 60, {})], "XLA Ops": ops}
        raw = space(plane("/device:TPU:0", lines), plane("/device:TPU:0 SparseCore 0", lines))
        seen = traces.read("tpu", Trace(raw), NOTHING_KNOWN, {})
        assert [(op.name, op.duration, op.device) for op in seen.ops] == [("recv-done.4", 30_000, 0)]

    def test_a_launch_without_one_of_the_devices_that_it_was_put_on_is_cut(self):
        """The trace lost the plane of the core that came last: nobody else did."""
        made = Made(launches(3, 4, late=2))
        raw = PLATFORMS["tpu"][1](made).replace(b"/device:TPU:2", b"/device:XXX:2")
        seen = traces.read("tpu", Trace(raw), NOTHING_KNOWN, {})
        assert measured(seen) == [] and len(seen.cut) == 4

    def test_where_some_cores_lost_their_barrier_no_wait_is_known(self):
        made = Made(launches(3, 4, late=2))
        kept = PLATFORMS["tpu"][1](made)
        first, second, rest = kept.partition(b"/device:TPU:1")
        lost = first + second + rest.replace(b"barrier-cores", b"barrier-c0res", 1)
        seen = traces.read("tpu", Trace(lost), NOTHING_KNOWN, {})
        assert {op.device for op in seen.ops if op.duration is None} == {1}
        assert measured(seen) == [] and not seen.cut

    def test_if_all_cores_lost_the_barrier_the_program_shows_that_there_is_one(self):
        raw = PLATFORMS["tpu"][1](Made(launches(3, 4, late=2))).replace(b"barrier-cores", b"barrier-c0res")
        wanted = traces.WantedCollectives(barriers=frozenset({(PROGRAM, REDUCE)}))
        assert len(measured(traces.read("tpu", Trace(raw), NOTHING_KNOWN, {}))) == 4  # taken for waits of 0
        seen = traces.read("tpu", Trace(raw), wanted, {})
        assert measured(seen) == [] and len(seen.ops) == 12

    def test_operations_of_two_programs_with_one_run_id_are_not_mixed(self):
        """Run ids count per core over all programs, so one number is another program on another core."""

        def core(*programs):
            modules, ops = [], []
            for place, name in enumerate(programs):
                modules.append(Event(f"{name}(5)", 10_000 * place, 900, {"run_id": place + 1}))
                ops.append(Event(f"%all-reduce.{name} = f32[] all-reduce()", 10_000 * place + 100, 700, {}))
            return {"XLA Modules": modules, "XLA Ops": ops}

        raw = space(plane("/device:TPU:0", core("a", "b")), plane("/device:TPU:1", core("b", "c")))
        wanted = traces.WantedCollectives(
            {name: {f"all-reduce.{name}": f"all-reduce.{name}"} for name in "abc"}
        )
        seen = traces.read("tpu", Trace(raw), wanted, {})
        assert {(op.module, op.name, op.device) for op in seen.ops} == {
            (name, f"all-reduce.{name}", device) for name, device in (("a", 0), ("c", 1))
        }
        assert seen.left_ns.keys() == {NOT_MATCHED}  # the two runs of b are a launch apart


def test_a_launch_that_goes_through_many_threads_ends_the_search():
    """Contexts that lead in a circle have no launch."""
    loop = [
        Event("EnqueueA", 0, 10, {"_ct": 5, "_c": 1, "_pt": 5, "_p": 2}),
        Event("EnqueueB", 20, 10, {"_ct": 5, "_c": 2, "_pt": 5, "_p": 1}),
    ]
    modules = [Event("jit_f(1)", 30, 10, {"_ct": 5, "_c": 1})]
    raw = space(plane("/host:CPU", {"main": loop}), plane("/device:TPU:0", {"XLA Modules": modules}))
    seen = traces.read("tpu", Trace(raw), NOTHING_KNOWN, {})
    assert [span.module for span in seen.spans] == ["jit_f"] and not seen.executed
