"""What the model shows: devices with their figures, meshes and arrays of the whole cluster."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.export.json import to_document
from jaxtop.model import FIGURES, MEMORY, State, array_views, device_views, launch_rate, mesh_views, recent
from jaxtop.model.liveness import BY_SEVERITY, worst
from jaxtop.tui.columns.hosts import state_column
from tests.stories import census, cluster_of, hello, link, pulse, running, tell

CPU, POWER, UTILIZATION = FIGURES["process_cpu_cores"], FIGURES["power_w"], FIGURES["utilization"]


def test_devices_show_what_is_known_and_nothing_else():
    two = (wire.Device(0, "H100", "gpu", local_id=0), wire.Device(2048, "H100", "gpu", local_id=1))
    figures = wire.DeviceSample(used_bytes=(10, None), limit_bytes=(40, 0), power_mw=(350_500,))
    cluster = cluster_of(*running(0), (11, "r1-0", hello(0, devices=two)))
    unknown = device_views(cluster, 11)
    assert [(view.id, view.used_bytes, view.read(POWER), view.memory_source) for view in unknown] == [
        (0, None, None, None),
        (2048, None, None, None),
    ]
    tell(cluster, (12, "r1-0", pulse(devices=figures, memory_source="allocator")))
    first, second = device_views(cluster, 12)
    assert (first.used_bytes, first.used_share, first.read(POWER), first.read(UTILIZATION)) == (
        10,
        0.25,
        350.5,
        None,
    )
    assert (second.used_bytes, second.used_share, second.read(POWER), second.peak_bytes) == (None,) * 4
    assert recent(cluster, "r1-0", MEMORY, 0) == [None, 10]


def test_a_mesh_that_spans_hosts_is_one_mesh():
    """Each host tells of it; what is shown has its axes, and each device its place in row-major order."""
    cluster = cluster_of(*running(0, 1), *((10, agent, census()) for agent in ("r1-0", "r1-1")))
    (mesh,) = mesh_views(cluster)
    assert mesh.axes == (("data", 2), ("model", 4))
    assert mesh.device_ids == (0, 1, 2, 3, 2048, 2049, 2050, 2051)
    assert [mesh.coordinates(each) for each in (0, 3, 2048, 2051, 7)] == [
        (0, 0),
        (0, 3),
        (1, 0),
        (1, 3),
        None,
    ]


def test_several_meshes_of_a_run_are_listed_largest_first():
    """Of the same devices in another order, or of fewer of them: they are different meshes."""
    turned = wire.Mesh((("data", 2), ("model", 4)), ((2048, 4), (0, 4)))
    small = wire.Mesh((("batch", 4),), ((0, 4),))
    cluster = cluster_of(*running(0, 1), (10, "r1-0", census(mesh=small)), (10, "r1-1", census(mesh=turned)))
    tell(cluster, (11, "r1-1", census(mesh=turned)))
    assert [mesh.device_ids[0] for mesh in mesh_views(cluster)] == [2048, 0]
    assert [len(mesh.device_ids) for mesh in mesh_views(cluster)] == [8, 4]


def test_a_mesh_that_no_longer_holds_arrays_is_no_longer_shown():
    cluster = cluster_of(*running(0), (10, "r1-0", census()), (11, "r1-0", wire.Arrays(0)))
    assert mesh_views(cluster) == [] and array_views(cluster) == []


@pytest.mark.parametrize("sizes", [(3, 4), (8, 2), (-2, -4), (0, 8)])
def test_a_mesh_whose_sizes_do_not_fit_its_devices_is_not_shown(sizes):
    wrong = wire.Mesh((("data", sizes[0]), ("model", sizes[1])), ((0, 8 if all(sizes) else 0),))
    cluster = cluster_of(*running(0), (10, "r1-0", census(mesh=wrong)))
    assert mesh_views(cluster) == []


def test_an_array_that_spans_hosts_appears_once():
    """Hosts are read at different moments: one may have met an array that the other has dropped."""
    weights = wire.ArrayGroup((1024, 512), "float32", 0, 2 << 20, 1 << 20, "params['w']")
    mine = wire.ArrayGroup((), "int32", 1, 4, 4)
    cluster = cluster_of(
        *running(0, 1),
        (10, "r1-0", census(weights, mine, counts=(2, 1))),
        (10, "r1-1", census(weights, counts=(3,))),
    )
    merged, single = array_views(cluster)
    assert (merged.name, merged.count, merged.bytes_global) == ("params['w']", 3, 6 << 20)
    assert merged.mesh == mesh_views(cluster)[0] and merged.device_ids == mesh_views(cluster)[0].device_ids
    assert (single.mesh, single.device_ids, single.sharding) == (None, (0,), "SingleDeviceSharding")


def test_arrays_that_differ_in_anything_are_distinguished():
    same = wire.ArrayGroup((8,), "float32", 0, 32, 16, "a", "f")
    others = [
        replace(same, **one)
        for one in ({"shape": (4, 2)}, {"dtype": "int32"}, {"name": "b"}, {"function": "g"})
    ]
    cluster = cluster_of(
        *running(0, 1), (10, "r1-0", census(same, *others)), (10, "r1-1", census(same, spec="P()"))
    )
    assert len(array_views(cluster)) == 6


@pytest.mark.parametrize(
    ("bytes_global", "bytes_per_device", "copies"),
    [
        (1 << 20, 1 << 17, 1),
        (1 << 20, 1 << 18, 2),
        (1 << 20, 1 << 19, 4),
        (1 << 20, 1 << 20, 8),
        (0, 0, None),
    ],
)
def test_replication_says_how_many_copies_the_devices_hold(bytes_global, bytes_per_device, copies):
    group = wire.ArrayGroup((1,), "float32", 0, bytes_global, bytes_per_device)
    cluster = cluster_of(*running(0), (10, "r1-0", census(group)))
    assert array_views(cluster)[0].replication == copies


@pytest.mark.parametrize("silence", ["silent", "deaf", "unreachable"])
def test_a_silent_host_shows_what_it_holds_and_nothing_that_goes_on(silence):
    figures = wire.DeviceSample(used_bytes=(10,), utilization_permille=(990,), power_mw=(300_000,))
    machine = wire.HostSample(process_cpu_permille=160, rss_bytes=7)
    device = wire.Device(0, "H100", "gpu", local_id=0)
    rhythm = wire.Rhythm(
        1, ("step",), mean_us=20_000, p50_us=20_000, p90_us=22_000, p99_us=25_000, milli_per_s=50_000
    )
    cluster = cluster_of((10, "r1-0", link("up")), (10, "r1-0", hello(0, devices=(device,))))
    for at in (10, 11, 12):
        said = pulse(devices=figures, host=machine, launches={"step": at * 50}, rhythm=rhythm)
        tell(cluster, (at, "r1-0", said))
    (live,) = device_views(cluster, 12)
    assert (live.launches_per_second, live.read(CPU), live.read(UTILIZATION)) == (50, 0.16, 0.99)
    tell(cluster, (13, "r1-0", link(silence)))
    (view,) = device_views(cluster, 13)
    assert (view.launches_per_second, *map(view.read, (CPU, UTILIZATION, POWER))) == (None,) * 4
    assert view.used_bytes == 10
    (host,) = to_document(cluster, 13)["hosts"]
    assert (host["cpu_percent"], host["rss_bytes"]) == (None, 7)
    assert (host["step"]["p50_ms"], host["step"]["per_second"], host["launches"]) == (
        None,
        None,
        {"step": 600},
    )


def test_the_step_of_a_host_on_which_nothing_happens_is_of_the_past():
    rhythm = wire.Rhythm(1, ("step",), mean_us=4_000, p50_us=4_180, p99_us=9_000, milli_per_s=900)
    cluster = cluster_of(*running(0))
    lull = wire.Lull("step", 42_000)
    launches = tuple(wire.Launch(0, i, at, 500) for i, at in enumerate((0, 1000, 2000)))
    tell(cluster, (50, "r1-0", pulse(at_ms=40_000, rhythm=rhythm)))
    tell(cluster, (51, "r1-0", wire.Window(40_000, 9000, programs=(("p", None),), launches=launches)))
    (host,) = to_document(cluster, 52)["hosts"]
    assert host["step"]["idle"] == pytest.approx(0.4)
    tell(cluster, (110, "r1-0", pulse(at_ms=100_000, rhythm=rhythm, lull=lull)))
    (host,) = to_document(cluster, 110)["hosts"]
    step = host["step"]
    assert step["idle"] is None  # the window shows the time before
    assert (step["p50_ms"], step["past_s"], step["per_second"], step["flops_per_second"]) == (
        4.18,
        58,
        None,
        None,
    )
    slow = wire.Rhythm(2, ("step",), mean_us=30_000_000, p50_us=30_000_000, milli_per_s=33)
    tell(cluster, (111, "r1-0", pulse(at_ms=100_000, rhythm=slow, lull=lull)))
    (host,) = to_document(cluster, 111)["hosts"]
    assert (host["step"]["past_s"], host["step"]["per_second"]) == (None, 0.033)


def test_all_places_rank_states_alike():
    assert sorted(BY_SEVERITY) == sorted(State)
    row = [State.ENDED, State.STOPPED, State.LIVE, State.BLOCKED, State.DIED]
    worst_first = [State.DIED, State.STOPPED, State.BLOCKED, State.ENDED, State.LIVE]
    column = state_column(lambda state: state)
    assert sorted(row, key=column.read, reverse=True) == worst_first
    assert worst(row) is State.DIED


def test_where_launches_are_not_seen_their_rate_is_unknown_and_not_zero():
    said = {"launches": "off: the process computes, but its launches are not visible"}
    cluster = cluster_of(*running(0), *((at, "r1-0", pulse(launches={"step": 7})) for at in (11, 12)))
    assert launch_rate(cluster, cluster.hosts["r1-0"]) == 0
    tell(cluster, (13, "r1-0", hello(0, sources=said)))
    assert launch_rate(cluster, cluster.hosts["r1-0"]) is None
