"""Windows of all hosts become collectives with times and waits; checked against what hands can work out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model.collectives import (
    axis_traffic,
    collective_views,
    last_arrivals,
    step_shares,
    waits_by_device,
)
from jaxtop.model.collectives.joining import COUNTED_WINDOWS, MAX_EVALUATED, MAX_LAUNCHES, WINDOWS_TO_WAIT
from jaxtop.model.collectives.kinds import busbw, kind_of
from jaxtop.model.collectives.matching import ONE_WAY_IN_GROUPS
from jaxtop.model.collectives.verdict import ENOUGH_WINDOWS
from jaxtop.model.derived import Derived
from jaxtop.recording.writer import KEYFRAME_WINDOWS
from jaxtop.store.last_frames import WINDOWS
from jaxtop.traces.parts import ONE_WAY
from tests.made.runs import beginning, run_of, windows_of
from tests.made.windows import OPS, Made
from tests.stories import census, cluster_of, hello, pulse, tell

if TYPE_CHECKING:
    from jaxtop.model import Cluster

KEY = ("r1", "jit_step", "f")
MESH = wire.Mesh((("data", 2), ("model", 2)), ((0, 4),))
# Over `data`: one device of each process. Over `model`: the two of one process.
DATA = wire.ReplicaGroups((2,), ((0, 2, 2), (1, 2, 2)))
MODEL = wire.ReplicaGroups((2,), ((0, 4, 1),))
PSUM = wire.Collective("all-reduce.1", "all-reduce", "f32[1000]", 4000, 0, 1, source="psum")
GATHER = wire.Collective("all-gather.2", "all-gather", "f32[8]", 32, 1, 3, source="all_gather")


def devices(index: int) -> tuple[wire.Device, ...]:
    return tuple(wire.Device(2 * index + i, "cpu", "cpu", i) for i in range(2))


def inventory(index: int, **more) -> wire.Inventory:
    more = {"groups": (DATA, MODEL), "collectives": (PSUM, GATHER), **more}
    return wire.Inventory(1, "jit_step", "f", 4, ((2 * index, 2),), **more)


def two_hosts(**more) -> Cluster:
    """Two processes with two devices each, the same program, and the mesh that it runs over."""
    story = []
    for i in range(2):
        said = (
            hello(i, devices=devices(i), platform="cpu"),
            census(wire.ArrayGroup((8, 4), "float32", 0, 128, 64), mesh=MESH),
            pulse(at_ms=1_000, launches={"step": 10}),
            pulse(at_ms=11_000, launches={"step": 30}),
            inventory(i, **more),
        )
        story += [(1.0, f"r1-{i}", each) for each in said]
    return cluster_of(*story)


def window(*launches: tuple[int, dict[str, tuple[int | None, ...]]], **more) -> wire.Window:
    """A window with these launches: the run id, and the durations of each op."""
    ops = tuple(dict.fromkeys(op for _, timed in launches for op in timed))
    return wire.Window(
        at_ms=1,
        duration_us=1_000_000,
        programs=more.pop("programs", (("jit_step", "f"),)),
        ops=ops,
        launches=tuple(wire.Launch(0, run_id, 0, 10_000, 4_000, 1_000) for run_id, _ in launches),
        rounds=tuple(
            wire.Round(i, ops.index(op), 0, 0, durations)
            for i, (_, timed) in enumerate(launches)
            for op, durations in timed.items()
        ),
        **more,
    )


def view(cluster: Cluster, op: str = "all-reduce.1"):
    return next(each for each in collective_views(cluster, 0) if each.op == op)


def test_a_program_tells_its_collectives_before_any_was_timed():
    first, second = collective_views(two_hosts(), 0)
    assert (first.op, first.kind, first.source, first.bytes) == ("all-reduce.1", "all-reduce", "psum", 4000)
    assert (first.axes, first.is_whole_axes, first.crosses_hosts) == (("data",), True, True)
    assert (first.group_size, first.groups) == (2, ((0, 2), (1, 3)))
    assert (second.axes, second.crosses_hosts, second.groups) == (("model",), False, ((0, 1), (2, 3)))
    assert (first.per_second, second.per_second) == (2.0, 6.0)  # twice a second, and three times in each
    assert (first.samples, first.p50_us, first.wait_us, first.is_enough) == (0, None, None, False)
    assert not first.waits_us and first.straggler is None


def test_waits_follow_from_durations_alone():
    """Over the devices 0 and 2 it took 1,100 and 100 us: 0 waited 1,000. Over 1 and 3, 900 and 150."""
    cluster = two_hosts()
    tell(cluster, (2, "r1-0", window((7, {"all-reduce.1": (1100, 900)}))))
    assert view(cluster).samples == 0  # the other process has not told yet
    tell(cluster, (3, "r1-1", window((7, {"all-reduce.1": (100, 150)}))))
    psum = view(cluster)
    assert (psum.samples, psum.p50_us, psum.p99_us) == (2, 1100, 1100)
    assert (psum.transfer_us, psum.wait_us) == (125, 1000)
    assert dict(psum.waits_us) == {0: 1000, 2: 0, 1: 750, 3: 0}
    assert psum.busbw_bytes_per_s == round(4000 * 2 * (1 / 2) / 125e-6)
    assert psum.us_per_second == 2200
    assert waits_by_device(cluster, 0) == {("r1", 0): 1000, ("r1", 1): 750, ("r1", 2): 0, ("r1", 3): 0}
    late, early = last_arrivals(cluster)
    assert (late.agent[-1], late.last, late.instances, late.late_us) == ("1", 1, 1, 750)
    assert (early.last, early.instances, early.late_us) == (0, 1, None)


def test_launches_are_matched_by_their_numbers_whatever_the_windows_contain():
    """Windows of two hosts rarely begin and end with the same launch."""
    cluster = two_hosts()
    first = window(*((run_id, {"all-reduce.1": (200, 200)}) for run_id in (5, 6, 7)))
    second = window(*((run_id, {"all-reduce.1": (100, 100)}) for run_id in (6, 7, 8)))
    tell(cluster, (2, "r1-0", first), (3, "r1-1", second))
    assert (view(cluster).samples, view(cluster).wait_us) == (4, 100)
    assert [share.launches for share in step_shares(cluster)] == [2]


def test_the_rounds_of_a_loop_are_instances_of_their_own():
    cluster = two_hosts()
    for index, (first, second) in ((0, (500, 100)), (1, (100, 100))):
        timed = (wire.Round(0, 0, 0, 0, (first,) * 2), wire.Round(0, 0, 1, 0, (second,) * 2))
        tell(cluster, (2, f"r1-{index}", replace(window((7, {"all-reduce.1": (0, 0)})), rounds=timed)))
    psum = view(cluster)
    assert (psum.samples, psum.p50_us, psum.p99_us, psum.transfer_us) == (4, 100, 500, 100)
    assert psum.wait_us == 400  # in the round in which somebody waited


def test_the_wait_of_a_group_is_no_longer_than_the_median_beside_it():
    """Of two groups one waits 74 ms in each launch, and takes 80; the other takes 2 ms."""
    cluster = two_hosts()
    for number in range(4):
        tell(cluster, (2, "r1-0", window((number, {"all-reduce.1": (80_000, 2_000)}))))
        tell(cluster, (2, "r1-1", window((number, {"all-reduce.1": (6_000, 1_500)}))))
    whole = view(cluster)
    assert (whole.wait_us, whole.p50_us) == (74_000, 80_000)


def test_a_device_that_reported_nothing_is_unknown_and_not_zero():
    cluster = two_hosts()
    tell(cluster, (2, "r1-0", window((7, {"all-reduce.1": (300, None)}))))
    tell(cluster, (3, "r1-1", window((7, {"all-reduce.1": (100, 100)}))))
    psum = view(cluster)
    assert (psum.samples, psum.p50_us, psum.wait_us) == (1, 300, 200)  # of the group that is known whole
    assert dict(psum.waits_us) == {0: 200, 2: 0}


def test_a_process_without_windows_delays_launches_only_briefly():
    cluster = two_hosts()
    for number in range(6):
        tell(cluster, (2 + number, "r1-0", window((number, {"all-gather.2": (300, 100)}))))
    gather = view(cluster, "all-gather.2")
    assert gather.samples == 6  # it is within one process, so the other has no part in it
    assert (gather.p50_us, gather.wait_us) == (300, 200)


def test_a_device_waits_no_longer_than_the_longest_wait_of_its_group():
    """And the devices of a process that reports no more windows have no waits."""
    both = wire.ReplicaGroups((4,), ((0, 4, 1),))
    cluster = two_hosts(groups=(both, MODEL))
    for number in range(2):
        tell(cluster, (2, "r1-0", window((number, {"all-reduce.1": (100, 21_800)}))))
        tell(cluster, (2, "r1-1", window((number, {"all-reduce.1": (500, 600)}))))
    whole = view(cluster)
    assert (whole.wait_us, dict(whole.waits_us)) == (21_700, {0: 0, 1: 21_700, 2: 400, 3: 500})
    for number in range(2, 12):
        tell(cluster, (3 + number, "r1-1", window((number, {"all-reduce.1": (500, 500 + number)}))))
    part = view(cluster)
    assert part.waits_us.keys() == {2, 3}
    assert part.wait_us == max(part.waits_us.values()) < 100


def test_a_process_that_has_exited_waits_for_nobody():
    cluster = run_of(Made(hosts=3, devices=2, late=1), 5)
    assert {device for _, device in waits_by_device(cluster, 11)} == set(range(6))
    tell(cluster, (11, "r1-0", wire.Bye(11_000, "ended")))
    assert {device for _, device in waits_by_device(cluster, 11)} == {2, 3, 4, 5}


def test_without_groups_there_are_durations_and_no_waits():
    """Of the second process nobody has heard, and no mesh tells where devices stand."""
    cluster = cluster_of((1, "r1-0", hello(0, devices=devices(0))), (1, "r1-0", inventory(0)))
    for run_id in range(4 + WINDOWS_TO_WAIT):
        tell(cluster, (2, "r1-0", window((run_id, {"all-reduce.1": (300 + run_id, 100)}))))
    psum = view(cluster)
    assert (psum.samples, psum.p50_us, psum.group_size) == (4, 301, 2)
    assert (psum.axes, psum.groups, psum.crosses_hosts) == (None, (), None)
    assert (psum.wait_us, psum.transfer_us, psum.is_enough) == (None, None, False)
    tell(cluster, (3, "r1-1", hello(1, devices=devices(1))), (3, "r1-1", inventory(1)))
    assert view(cluster).groups == ((0, 2), (1, 3))  # now that both are there


def test_collectives_in_windows_are_listed_without_their_program():
    cluster = cluster_of((1, "r1-0", hello(0, devices=devices(0))))
    seen = window((7, {"all-to-all.3": (50, 60), "fusion.9": (5, 5)}), programs=(("jit_other", None),))
    tell(cluster, (2, "r1-0", seen))
    first, second = collective_views(cluster, 0)
    assert (first.program, first.fingerprint, first.op, first.kind) == (
        "jit_other",
        None,
        "all-to-all.3",
        "all-to-all",
    )
    assert (first.p50_us, first.bytes, first.axes, first.times) == (60, None, None, None)
    assert second.kind == "?"


def test_a_window_says_how_much_of_a_launch_goes_to_collectives():
    cluster = two_hosts()
    for index in range(2):
        tell(cluster, (2, f"r1-{index}", window((7, {"all-reduce.1": (100, 100)}))))
    (share,) = step_shares(cluster)
    assert (share.program, share.launches, share.share, share.exposed_share) == ("jit_step", 1, 0.4, 0.1)


def test_traffic_is_summed_by_axes():
    model, data = sorted(
        axis_traffic(collective_views(two_hosts(), 0)), key=lambda each: each.bytes_per_second or 0
    )
    assert (data.axes, data.bytes_per_second, data.us_per_second, data.crosses_hosts) == (
        ("data",),
        8000.0,
        None,
        True,
    )
    assert (model.axes, model.bytes_per_second, model.crosses_hosts) == (("model",), 192.0, False)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("all-reduce", 1_500_000),
        ("all-gather", 750_000),
        ("reduce-scatter", 750_000),
        ("all-to-all", 750_000),
        ("collective-permute", 1_000_000),
    ],
)
def test_bus_bandwidth_is_as_nccl_tests_define_it(kind, expected):
    assert busbw(kind, 1000, 4, 1000) == expected
    assert busbw(kind, None, 4, 1000) is busbw(kind, 1000, None, 1000) is busbw(kind, 1000, 4, None) is None


def test_an_operation_without_other_information_is_classified_by_its_name():
    assert kind_of("all-reduce-start.12") == "all-reduce"
    assert kind_of("ragged-all-to-all.1") == "ragged-all-to-all"
    assert kind_of("loop_fusion") == "?"


def test_the_late_host_is_named_once_and_again_when_it_is_another_one():
    made = Made(hosts=3, devices=2, late=1)
    cluster = cluster_of(*beginning(made), *windows_of(made, range(10)))
    named = [event.text for event in cluster.events if event.kind == "straggler"]
    assert len(named) == 1
    assert named[0].startswith("host 1 (node1) is late: the others wait ")
    assert " ms for it in all-reduce.3 of jit_train_step over data; it comes last in 100% of" in named[0]
    tell(cluster, *windows_of(made._replace(late=2), range(10, 13)))
    (psum,) = (each for each in collective_views(cluster, 0) if each.straggler)
    assert (psum.op, psum.straggler.process_index) == ("all-reduce.3", 2)
    tell(cluster, *windows_of(made._replace(late=None), range(13, 20)))
    assert [each.straggler for each in collective_views(cluster, 0)] == [None] * len(OPS)
    words = [(event.agent, event.severity) for event in cluster.events if event.kind == "straggler"]
    assert words[0] == ("r1-1", "warning")
    assert words[-1] == ("r1-2", "info")
    assert len(words) <= 4


def test_live_and_replayed_frames_give_equal_models():
    made = Made(hosts=3, devices=2, late=1)
    story = (*beginning(made), *windows_of(made, range(6)))
    live = cluster_of(*story[: len(story) // 2])
    collective_views(live, 0)  # somebody looks in between
    tell(live, *story[len(story) // 2 :])
    assert live == cluster_of(*story)
    assert collective_views(live, 0) == collective_views(cluster_of(*story), 0)


def test_a_paused_picture_does_not_move():
    made = Made(hosts=3, devices=2, late=1)
    cluster = run_of(made, 5)
    tell(cluster, *windows_of(made, [5])[:1])  # a launch is under way
    paused, before = cluster.frozen(), [each.samples for each in collective_views(cluster, 0)]
    tell(cluster, *windows_of(made, range(5, 8)))
    assert [each.samples for each in collective_views(paused, 0)] == before
    assert [each.samples for each in collective_views(cluster, 0)] != before
    tell(paused, *windows_of(made, range(5, 8)))
    assert collective_views(paused, 0) == collective_views(cluster, 0)


def test_what_did_not_change_is_not_worked_out_again():
    made = Made(hosts=3, devices=2, late=1)
    cluster = run_of(made, 5)
    views = collective_views(cluster, 0)
    waited = waits_by_device(cluster, 0)
    assert collective_views(cluster, 0) is views
    tell(cluster, (20, "r1-0", pulse(at_ms=21_000, launches={"train_step": 70})))
    again = collective_views(cluster, 0)  # the rate is another one, and nothing else
    assert (again[0].per_second, views[0].per_second) == (5.0, 1.0)
    assert waits_by_device(cluster, 0) is waited
    afresh = cluster.frozen()
    afresh.derived = Derived()
    assert waits_by_device(afresh, 0) == waited
    tell(cluster, *windows_of(made, [5]))
    assert waits_by_device(cluster, 0) is not waited


def test_memory_is_bounded_however_long_a_run_is_watched():
    cluster = two_hosts()
    for number in range(1500):
        seen = window(*((2 * number + i, {"all-reduce.1": (100, 100)}) for i in range(2)))
        tell(cluster, (2 + number, "r1-0", seen))
        if number % 3:
            tell(cluster, (2 + number, "r1-1", seen))
    held = cluster.windows.programs[KEY]
    assert len(held.timings["all-reduce.1"]) <= MAX_LAUNCHES
    assert len(held.evaluated) <= MAX_EVALUATED
    assert len(held.pending) < 10


@pytest.mark.parametrize(
    "odd",
    [
        replace(window((7, {"x": (1,)})), programs=()),
        replace(window((7, {"x": (1,)})), ops=()),
        replace(window((7, {"x": (1,)})), launches=()),
        inventory(0, groups=()),
        inventory(0, groups=(wire.ReplicaGroups((3,), ((0, 4, 1),)), MODEL)),
    ],
)
def test_messages_that_point_to_nothing_are_refused(odd):
    cluster = two_hosts()
    tell(cluster, (5, "r1-0", odd))
    assert sum(cluster.rejected.values()) == 1


def test_variants_with_and_without_a_fingerprint_stand_side_by_side():
    """Where a fingerprint could not be read, its program is listed before those that have one."""
    cluster = two_hosts()
    tell(cluster, *((5, "r1-0", replace(inventory(0), fingerprint=each)) for each in (None, "g")))
    views = collective_views(cluster, 0)
    assert len(views) == 6
    assert [each.fingerprint for each in views if each.op == "all-reduce.1"] == [None, "f", "g"]


def test_durations_that_cannot_be_are_left_out():
    cluster = two_hosts()
    odd = window((7, {"all-reduce.1": (1 << 60, -5), "all-gather.2": (1, 2, 3, 4)}))
    tell(cluster, (5, "r1-0", odd), (5, "r1-1", odd))
    assert view(cluster).samples == 0
    assert not cluster.rejected


def test_replaced_hosts_and_programs_take_their_places():
    """A process that was started again has other agents; what was measured with the old one is past."""
    cluster = two_hosts()
    for index in range(2):
        tell(cluster, (2, f"r1-{index}", window((7, {"all-reduce.1": (100, 100)}))))
    again = hello(1, agent="r1-1b", devices=devices(1), started_ms=1 << 42)
    tell(cluster, (3, "r1-1b", again), (3, "r1-1b", inventory(1)))
    tell(cluster, (4, "r1-0", window((8, {"all-reduce.1": (300, 300)}))))
    tell(cluster, (4, "r1-1b", window((8, {"all-reduce.1": (100, 100)}))))
    assert (view(cluster).samples, view(cluster).wait_us) == (2, 200)


def test_windows_are_kept_for_as_long_as_others_need_them():
    """Late viewers get enough for a verdict, and do not overrun launches; keyframes have all that count."""
    assert ENOUGH_WINDOWS <= WINDOWS <= WINDOWS_TO_WAIT <= COUNTED_WINDOWS <= KEYFRAME_WINDOWS
    assert ONE_WAY_IN_GROUPS < ONE_WAY
