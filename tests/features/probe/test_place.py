"""`jaxtop place` and `jaxtop.plan.best_devices`: devices ranked by free memory and probed rates."""

from __future__ import annotations

import json
import socket

import pytest

from jaxtop import plan, wire
from jaxtop.features.planning.model.plan import Goal
from jaxtop.features.probe import choosing
from jaxtop.features.probe.messages import KnownDevice, PlacementRequest
from jaxtop.features.probe.place import known_devices
from jaxtop.features.probe.placement import PREFERENCES, chosen, ranked
from jaxtop.model import Cluster
from jaxtop.store import saved_probe
from jaxtop.wire.probing import FigureSummary
from jaxtop_agent.probe import placing
from tests import standin
from tests.builders import NOW, agent_id, frame, hello
from tests.staged.probe import of_device, probe
from tests.support import PYTHON, environment, jax_run, jaxtop_here, run, script

GB = 10**9


def device(id_, process=0, free=80, watts=None, **rates):
    """A device with so many gigabytes free; rates are relative to 10^12 a second, times in microseconds."""
    scaled = {name: value * (1e12 if name.endswith("_per_s") else 1e-6) for name, value in rates.items()}
    free_bytes = None if free is None else free * GB
    return KnownDevice(id_, process, free_bytes=free_bytes, rates=scaled, watts=watts)


def computing(id_, rate, **more):
    return device(id_, matrix_flops_per_s=rate, **more)


def order(devices, prefer="throughput"):
    return [each.device.id for each in ranked(devices, prefer)]


class TestRanking:
    def test_free_memory_and_rates_count_by_their_share_of_the_best(self):
        standings = ranked([computing(0, 2, free=40), computing(1, 1.5)], "throughput")
        assert [(each.device.id, each.score) for each in standings] == [(1, 0.75), (0, 0.5)]
        assert standings[1].reasons == (("free_bytes", 40 * GB, 0.5), ("matrix_flops_per_s", 2e12, 1.0))

    def test_the_worst_rate_counts(self):
        slow_memory = computing(0, 2, memory_bytes_per_s=1)
        assert ranked([slow_memory, computing(1, 1.6, memory_bytes_per_s=2)], "throughput")[0].score == 0.8

    def test_latency_ranks_by_times_and_not_by_rates(self):
        fast, near = computing(0, 9, round_trip_s=50), computing(1, 1, round_trip_s=25)
        assert order([fast, near]) == [0, 1]
        assert order([fast, near], "latency") == [1, 0]

    def test_energy_ranks_by_what_a_watt_computes(self):
        thirsty, frugal = computing(0, 2, watts=700), computing(1, 1, watts=100)
        assert order([thirsty, frugal], "energy") == [1, 0]
        (best, _) = ranked([thirsty, frugal], "energy")
        assert best.reasons[1] == ("flops_per_joule", 1e10, 1.0)
        assert order([device(0, watts=300), device(1, watts=200)], "energy") == [1, 0]
        assert order([computing(0, 1), computing(1, 2)], "energy") == [1, 0]

    def test_an_unknown_figure_counts_as_the_worst_known_one(self):
        standings = ranked([device(0), computing(1, 2), computing(2, 1)], "throughput")
        assert [each.device.id for each in standings] == [1, 0, 2]
        assert standings[1].reasons[1] == ("matrix_flops_per_s", None, 0.5)

    def test_use_by_others_counts(self):
        assert order([KnownDevice(0, busy=0.9), KnownDevice(1, busy=0.0)]) == [1, 0]

    def test_noise_leaves_devices_in_order_and_nothing_known_is_no_score(self):
        assert order([computing(0, 1), computing(1, 1.004)]) == [0, 1]
        assert [each.score for each in ranked([device(0, free=None)] * 2, "throughput")] == [None, None]
        assert order([device(0, free=0), device(1, free=0)]) == [0, 1]

    def test_preferences_are_the_goals_of_a_plan(self):
        assert list(PREFERENCES) == [str(each) for each in Goal]


class TestChoice:
    def test_devices_that_are_equally_good_are_taken_in_order(self):
        assert self.ids([device(i) for i in range(8)], 4) == [0, 1, 2, 3]

    def test_neighbours_are_preferred_where_they_are_about_as_good(self):
        assert self.ids([device(i, free=40 if i == 1 else 80) for i in range(8)], 4) == [4, 5, 6, 7]
        assert self.ids([device(i, free=40 if i in (1, 5) else 80) for i in range(8)], 4) == [0, 2, 3, 4]

    def test_each_process_provides_as_many_if_that_is_possible(self):
        two = [device(i, process=i // 4, free=40 if i < 4 else 80) for i in range(8)]
        assert self.ids(two, 4) == [0, 1, 4, 5]
        assert self.ids(two, 8) == list(range(8))

    def test_else_as_few_processes_as_possible(self):
        two = [device(i, process=i // 4, free=40 if i < 4 else 80) for i in range(8)]
        assert self.ids(two, 3) == [4, 5, 6]
        assert self.ids(two, 5) == [0, 4, 5, 6, 7]
        uneven = [device(i, process=int(i > 0)) for i in range(4)]
        assert self.ids(uneven, 4) == [0, 1, 2, 3] and self.ids(uneven, 3) == [1, 2, 3]

    @staticmethod
    def ids(devices, n):
        return [each.id for each in chosen(devices, n, "throughput")]


class TestMachine:
    @pytest.fixture
    def driver(self, tmp_path, monkeypatch):
        return standin.driver_of_processes(tmp_path, monkeypatch)

    def test_gpus_by_free_memory_use_and_probed_rates(self, driver):
        driver.have(
            {"used": 61 << 30, "util": 90}, {"used": 1 << 30, "util": 0}, {"used": 1 << 30, "util": 0}
        )
        rates = [{"matrix_flops_per_s": FigureSummary(value * 1e12, 0, 9)} for value in (700, 500, 700)]
        saved_probe.keep(
            probe(
                "gpu",
                [
                    of_device(0, id=i, uuid=standin.UUIDS[i], platform="gpu", figures=each)
                    for i, each in enumerate(rates)
                ],
            )
        )
        done = jaxtop_here("place", "--json")
        found = json.loads(done.stdout)
        assert done.returncode == 0 and found["order"] == [2, 1, 0] and found["of"] == "machine"
        assert [each["score"] for each in found["devices"]] == [1.0, 0.71, 0.025]
        assert found["devices"][0]["free_bytes"] == 80 << 30 and found["devices"][0]["watts"] == 700
        assert found["cuda_visible_devices"] == ",".join(standin.UUIDS[i] for i in (2, 1, 0))
        done = jaxtop_here("place", "-n", 2)
        rows = done.stdout.splitlines()
        assert "80.0 GiB free of 80.0 GiB, matrix rate 700 TFLOP/s, idle 100%" in rows[1]
        assert "matrix rate 500 TFLOP/s (71%)" in rows[2]
        assert rows[3:] == [
            "order: 2,1",
            f"export CUDA_VISIBLE_DEVICES={standin.UUIDS[2]},{standin.UUIDS[1]}",
        ]
        assert "of 2 of 2 devices" in done.stderr

    def test_instances_take_the_place_of_a_divided_gpu(self, driver):
        halves = {f"mig{i}.uuid": standin.INSTANCES[i] for i in range(2)}
        driver.have({"mig": 2, **halves}, {})
        found = json.loads(jaxtop_here("place", "--json").stdout)
        listed = [each["uuid"] for each in found["devices"]]
        assert sorted(listed) == sorted([standin.UUIDS[1], *standin.INSTANCES[:2]])

    def test_without_gpus_the_devices_of_the_last_probe(self):
        done = jaxtop_here("place")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("jaxtop: no GPU was found here") and len(done.stderr.splitlines()) == 1
        figures = [{"round_trip_s": FigureSummary(us * 1e-6, 0, 9)} for us in (40, 20)]
        here = socket.gethostname()
        saved_probe.keep(
            probe(devices=[of_device(0, i, hostname=here, figures=each) for i, each in enumerate(figures)])
        )
        done = jaxtop_here("place", "--for", "latency")
        assert "order: 1,0" in done.stdout and "round trip 40 µs (50%)" in done.stdout
        assert "CUDA" not in done.stdout and "CPU devices share the memory" in done.stderr

    @pytest.mark.parametrize(
        ("words", "why"),
        [
            (("-n", "0"), "0 is not a number of devices"),
            (("-n", "x"), "x is not a number of devices"),
            (("--for", "speed"), "invalid choice: 'speed'"),
            (("-n", "9"), "-n 9: there are 1 devices"),
        ],
    )
    def test_wrong_input_is_one_line(self, words, why):
        saved_probe.keep(probe(devices=[of_device(0, hostname=socket.gethostname())]))
        done = jaxtop_here("place", *words)
        assert done.returncode == 2 and why in done.stderr and len(done.stderr.splitlines()) == 1


def test_devices_of_a_run():
    cluster = Cluster()
    used, power = (60 << 30, 10 << 30), (500_000, 300_000)
    sample = wire.DeviceSample(used_bytes=used, limit_bytes=(80 << 30,) * 2, power_mw=power)
    for index in (0, 1):
        gpus = tuple(wire.Device(2 * index + i, "H100", "gpu", i) for i in range(2))
        cluster.feed(frame(agent_id(index), hello(index, devices=gpus)))
        more = {"devices": sample} if not index else {"devices": wire.DeviceSample()}
        cluster.feed(frame(agent_id(index), wire.Pulse(int(NOW * 1000), sampled_ms=1, **more), sequence=2))
    known = known_devices(
        cluster, NOW, probe("gpu", [of_device(0, id=0, platform="gpu", kind="H100", local_id=0)])
    )
    assert [(each.id, each.process, each.free_bytes, each.watts) for each in known] == [
        (0, 0, 20 << 30, 500),
        (1, 0, 70 << 30, 300),
        (2, 1, None, None),
        (3, 1, None, None),
    ]
    assert known[0].rates["matrix_flops_per_s"] == 2e12 and not known[1].rates
    assert order(known)[0] == 1
    cluster.feed(frame(agent_id(0), wire.Bye(int(NOW * 1000), "ended"), sequence=3))
    assert [each.id for each in known_devices(cluster, NOW, None)] == [2, 3]


def test_rates_are_relative_to_peers_of_the_same_rounds():
    """The medians of devices that were measured one after another differ by what else the machine did."""
    figures = {
        "matrix_flops_per_s": FigureSummary(4e12, 0, 9, 8e12, 1.0),
        "round_trip_s": FigureSummary(9e-6, 0, 9, 5e-6, 0.5),
    }
    assert of_device(figures=figures).rates == {"matrix_flops_per_s": 8e12, "round_trip_s": 1e-5}
    assert of_device().rates["matrix_flops_per_s"] == 2e12


class TestOrderOfAMesh:
    """On devices that look like those of a TPU: JAX's own order decides."""

    class Chip:
        platform, device_kind, process_index = "tpu", "TPU v4", 0

        def __init__(self, id_, coords, slice_index=0):
            self.id, self.coords, self.slice_index, self.core_on_chip = id_, coords, slice_index, 0

    def test_neighbours_of_a_block_are_neighbours_in_the_mesh(self):
        from jax.experimental import mesh_utils

        chips = [self.Chip(4 * y + x, (x, y, 0)) for y in range(4) for x in range(4)]
        expected = list(mesh_utils.create_device_mesh((4, 4), chips).flat)
        assert placing.in_mesh_order(chips, (4, 4)) == expected
        assert sorted(each.id for each in placing.in_mesh_order(chips, (16,))) == list(range(16))

    def test_slices_are_the_slowest(self):
        chips = [self.Chip(4 * s + i, (i % 2, i // 2, 0), s) for i in range(4) for s in range(2)]
        found = placing.in_mesh_order(chips, (4, 2))
        assert [each.slice_index for each in found] == [0] * 4 + [1] * 4

    def test_what_fills_no_block_stays_as_it_is(self):
        chips = [self.Chip(i, (i, i, 0)) for i in range(3)]
        assert placing.in_mesh_order(chips, (3,)) == chips


@pytest.mark.parametrize(
    ("n", "more", "why"),
    [
        (0, {}, "n=0 is not a number of devices"),
        (-2, {}, "n=-2 is not a number of devices"),
        (True, {}, "n=True is not a number of devices"),
        (2.5, {}, "n=2.5 is not a number of devices"),
        ("4", {}, "n='4' is not a number of devices"),
        (4, {"prefer": "speed"}, "prefer='speed' is not one of throughput, latency, energy"),
        (4, {"shape": (3, 2)}, "shape=(3, 2) is not that of 4 devices"),
        (4, {"shape": (-2, -2)}, "shape=(-2, -2) is not that of 4 devices"),
        (4, {"shape": ()}, "shape=() is not that of 4 devices"),
    ],
)
def test_wrong_arguments_are_refused_before_jax_is_asked(n, more, why, monkeypatch):
    monkeypatch.setattr(placing, "devices", None)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - its text follows
        plan.best_devices(n, **more)
    assert str(raised.value) == why


HERE = """
import sys
import jaxtop
assert not {"jax", "jaxtop.model", "jaxtop_agent.probe.placing"} & set(sys.modules)
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtop.plan import best_devices
assert jaxtop.plan.best_devices is best_devices

assert best_devices(8) == jax.devices()
assert [each.id for each in best_devices(4)] == [4, 5, 6, 7]  # one of the first four is slow
assert [each.id for each in best_devices(np.int64(2), "latency")] == [0, 1]
assert "jaxtop.model" not in sys.modules and "textual" not in sys.modules
mesh = Mesh(np.array(best_devices(4, shape=(2, 2))).reshape(2, 2), ("data", "model"))
there = jax.device_put(np.ones((4, 4)), NamedSharding(mesh, PartitionSpec("data", "model")))
assert float((there + 1).sum()) == 32
try:
    best_devices(9)
except ValueError as error:
    assert str(error) == "n=9: JAX has 8 devices", error
else:
    raise AssertionError
print("done")
"""


@pytest.mark.jax
def test_best_devices_of_a_process(tmp_path):
    slow, fast = ({"matrix_flops_per_s": FigureSummary(rate, 0, 9)} for rate in (1e12, 2e12))
    host = socket.gethostname()
    saved_probe.keep(
        probe(
            devices=[
                of_device(0, 0, id=i, local_id=i, hostname=host, figures=slow if i == 2 else fast)
                for i in range(8)
            ]
        )
    )
    done = run(PYTHON, script(tmp_path, HERE), env=environment(8), imports_jax=True)
    assert done.stdout.strip() == "done", done.stderr


TOGETHER = """
import os, sys
coordinator, count, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.environ["XDG_STATE_HOME"] = os.path.join(os.environ["HOME"], f"state{index}")  # its own probe, or none
import jax
jax.distributed.initialize(coordinator, count, index)
from jaxtop.plan import best_devices

def ids(*asked, **more):
    return [each.id - 2044 * each.process_index for each in best_devices(*asked, **more)]

print(ids(8), ids(4), ids(4, "latency"), ids(3))
try:
    best_devices(4 + index, timeout=30)
except ValueError as error:
    print(error)
if index:
    print("over")
else:
    try:
        best_devices(2, timeout=1)
    except TimeoutError as error:
        print(error)
"""


@pytest.mark.jax
def test_all_processes_choose_the_same_devices(tmp_path, monkeypatch):
    """The processes have probed differently, ask for different things, or do not ask at all."""
    slow, fast = ({"matrix_flops_per_s": FigureSummary(rate, 0, 9)} for rate in (1e12, 2e12))
    host = socket.gethostname()
    for index in range(2):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"state{index}"))
        rates = [fast if index or i > 1 else slow for i in range(4)]
        listed = [
            of_device(0, 0, id=i, local_id=i, hostname=host, figures=each) for i, each in enumerate(rates)
        ]
        saved_probe.keep(probe(devices=listed))
    monkeypatch.delenv("XDG_STATE_HOME")
    path = script(tmp_path, TOGETHER)
    with jax_run(path, hosts=2, devices=4, stdout=-1, stderr=-1) as started:
        (first, why), (second, _) = [process.communicate() for process in started]
    chosen_, differs, late = first.splitlines()
    assert chosen_ == "[0, 1, 2, 3, 4, 5, 6, 7] [2, 3, 4, 5] [0, 1, 4, 5] [4, 5, 6]", why
    assert second.splitlines() == [chosen_, differs, "over"]
    assert differs.startswith("best_devices: process 0 asks for n=4, ") and "process 1 for n=5, " in differs
    assert late.startswith("best_devices: process 1 did not come within 1 s (figures)")


def test_wanted_is_the_same_however_it_is_written():
    assert (
        choosing._wanted(4, "energy", None)
        == PlacementRequest(4, "energy", (4,))
        == choosing._wanted(4, "energy", [4])
    )
