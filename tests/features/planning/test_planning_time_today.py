"""What links cost and where a step's time goes, from the windows of a made-up run and from a probe."""

from __future__ import annotations

import pytest
from msgspec import structs

from jaxtop import wire
from jaxtop.features.planning.model.plan import Today
from jaxtop.features.planning.model.times.links import ANY, BETWEEN, WITHIN, cost_of, reach_of
from jaxtop.features.planning.model.times.published_costs import published_link
from jaxtop.features.planning.model.times.today_time import today_time
from jaxtop.model.arrays.meshes import mesh_views
from jaxtop.wire.probing import SCHEMA, Probe, ProbedCollective, ProbedDevice, ProbedGroup
from tests import stories
from tests.made import runs as made_runs
from tests.made import windows as made_windows
from tests.made.windows import Made

MADE = Made(4, 4, noise_us=8)
NOW = 11.0
RHYTHM = wire.Rhythm(1, ("train_step",), 50, 100, 200_000, 5_000, 50, 200_000, 200_000, 200_000)
MESH = (("data", 4), ("model", 4))


def read(*more, made=MADE, probe=None):
    told = [*made_runs.beginning(made), *made_runs.windows_of(made, range(5))]
    cluster = stories.cluster_of(
        *told, *((10.2, f"r1-{i}", each) for each in more for i in range(made.hosts))
    )
    (mesh,) = mesh_views(cluster)
    return today_time(cluster, NOW, mesh, made_windows.program(made), probe=probe)


def pulse(**more):
    return stories.pulse(at_ms=12_000, launches={"train_step": 25}, rhythm=RHYTHM, **more)


class TestRuns:
    def test_collectives_are_those_of_the_program_over_the_axes_of_the_mesh(self):
        found = {each.op: each for each in read().exchanges}
        assert len(found) == len(made_windows.OPS)
        for op, kind, axes, _, size, transfer in made_windows.OPS:
            each = found[op]
            assert (each.kind, each.axes, each.bytes, each.times) == (kind, axes, size, 1)
            # The member that came last did not wait: of the others nothing is measured here.
            assert each.transfer_us == pytest.approx(transfer, rel=0.35)

    def test_what_is_missing_of_the_collectives_is_said(self):
        assert not [each for each in read(pulse()).unknown if "collectives" in each]
        inventory = made_windows.inventory(MADE, 0)
        partly = structs.replace(
            inventory,
            rest=3,
            collectives=(structs.replace(inventory.collectives[0], times=None), *inventory.collectives[1:]),
        )
        unknown = " ".join(read(partly, pulse()).unknown)
        assert "3 of the program's collectives are left out" in unknown
        assert "1 of the program's collectives count once a launch" in unknown

    def test_links_are_fitted_by_axis_and_by_reach(self):
        links = read().links
        assert {axes for axes, _ in links} == {"data", "model", WITHIN, BETWEEN}
        gathered = links["model", "all-gather"]
        assert gathered.busbw_bytes_per_s == pytest.approx((8 << 20) * 0.75 / 900e-6, rel=0.2)
        assert links["data", "all-reduce"].busbw_bytes_per_s == pytest.approx(
            (64 << 20) * 1.5 / 6_000e-6, rel=0.2
        )

    def test_the_step_is_the_median_and_without_a_rhythm_unknown(self):
        found = read(pulse())
        assert found.step.step_ms == pytest.approx(200)
        assert found.step.communication_ms == pytest.approx(11.4, rel=0.1)
        unknown = read()
        assert unknown.step is None and any(each.startswith("the step: ") for each in unknown.unknown)

    def test_cpu_devices_share_the_cores_of_their_machine(self):
        found = read(pulse(host=wire.HostSample(cores_milli=2_000)))
        assert found.shared_cores == 2
        # There is one memory, so axes make no difference; what is not communication or a gap is computing.
        assert {axes for axes, _ in found.links} <= {WITHIN, BETWEEN}
        step = found.step
        assert step.compute_ms + step.communication_ms + step.other_ms == pytest.approx(200)

    def test_power_is_known_only_if_that_of_every_device_is(self):
        whole = wire.DeviceSample(power_mw=(300_000, 300_000, 300_000, 500_000))
        assert read(pulse(devices=whole)).watts_per_device == pytest.approx(350)
        assert read(pulse(devices=wire.DeviceSample(power_mw=(1, None, 1, 1)))).watts_per_device is None


def probe(*collectives):
    devices = tuple(ProbedDevice(i, i % 4, i // 4, f"node{i // 4}", "cpu", "cpu", None, {}) for i in range(8))
    return Probe(SCHEMA, "0.1", "0.10", 1, 1.0, "cpu", 2, (("data", 2), ("model", 4)), "float32", 1, 1, 1,
                 devices, collectives, ())  # fmt: skip


def probed(kind, size, groups, time_s):
    members = tuple(ProbedGroup(group, time_s) for group in groups)
    return ProbedCollective("any", kind, size, len(groups[0]), 5, time_s, 0.0, size / time_s, None, members)


def test_a_probe_stands_in_where_nothing_was_measured():
    rows, columns = ((0, 1, 2, 3), (4, 5, 6, 7)), ((0, 4), (1, 5), (2, 6), (3, 7))
    found = [
        probed("all-gather", size, groups, steps * 10e-6 + size * factor / rate)
        for size in (1 << 16, 1 << 24)
        for groups, steps, factor, rate in ((rows, 3, 0.75, 8e9), (columns, 1, 0.5, 1e9))
    ]
    quiet = [*made_runs.beginning(MADE)]
    cluster = stories.cluster_of(*quiet)
    (mesh,) = mesh_views(cluster)
    links = today_time(cluster, NOW, mesh, made_windows.program(MADE), probe=probe(*found)).links
    assert links[WITHIN, "all-gather"].busbw_bytes_per_s == pytest.approx(8e9)
    assert links[BETWEEN, "all-gather"].busbw_bytes_per_s == pytest.approx(1e9)
    assert links[BETWEEN, ANY].latency_us == pytest.approx(10)


def test_groups_cross_hosts_where_their_devices_are_further_apart_than_a_host():
    assert reach_of(MESH, ("model",), 4) == WITHIN
    assert reach_of(MESH, ("data",), 4) == BETWEEN
    assert reach_of(MESH, ("model",), 2) == BETWEEN
    assert reach_of((("data", 4), ("model", 1)), ("model",), 1) == WITHIN


class TestPublished:
    """The formulas of the JAX scaling book, computed again by hand."""

    def cost(self, platform, kind, device, axes, size):
        run = Today("r1", MESH, tuple(range(16)), 4, platform, device, ())
        return cost_of(run, MESH, axes, kind, size).total_us

    def test_a_ring_of_tpus(self):
        size = 1 << 28
        gathered = self.cost("tpu", "all-gather", "TPU v5 lite", ("model",), size)
        assert gathered == pytest.approx(size * 0.75 / 9e10 * 1e6)
        assert self.cost("tpu", "all-reduce", "TPU v5 lite", ("model",), size) == pytest.approx(2 * gathered)
        # An array that is divided over four devices, of which each has this size.
        exchanged = self.cost("tpu", "all-to-all", "TPU v5 lite", ("model",), size)
        assert exchanged == pytest.approx(4 * size / 4 / 9e10 * 1e6)
        # A microsecond for each hop is the least: half around the ring, both ways.
        assert self.cost("tpu", "all-gather", "TPU v5 lite", ("model",), 4) == pytest.approx(2)

    def test_gpus_within_a_host_and_across(self):
        size = 1 << 28
        within = self.cost("gpu", "all-gather", "NVIDIA H100 80GB HBM3", ("model",), size)
        assert within == pytest.approx(3 * 2 + size * 0.75 / 450e9 * 1e6)
        across = self.cost("gpu", "all-gather", "NVIDIA H100 80GB HBM3", ("data", "model"), size)
        # A host of four GPUs has four cards of 50 GB/s.
        assert across == pytest.approx(15 * 10 + size * 15 / 16 / 200e9 * 1e6)
        # Four groups at the same time share the network of a host.
        shared = self.cost("gpu", "all-gather", "NVIDIA H100 80GB HBM3", ("data",), size)
        assert shared == pytest.approx(3 * 10 + size * 0.75 / 50e9 * 1e6)

    def test_slices_of_tpus_are_joined_by_the_network(self):
        """6.25 GB/s a chip of a v5p (50 Gbps), and each of the four chips in a slice brings its own."""
        size = 1 << 28
        across = self.cost("tpu", "all-gather", "TPU v5p", ("data", "model"), size)
        assert across == pytest.approx(15 * 10 + size * 15 / 16 / 25e9 * 1e6)
        run = Today("r1", MESH, tuple(range(16)), 4, "tpu", "TPU v4", ())
        assert cost_of(run, MESH, ("data",), "all-gather", size) is None  # its network is not published

    @pytest.mark.parametrize(
        "kind",
        ["NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA A40", "NVIDIA H800", "AMD Instinct MI300X", "cpu"],
    )
    def test_other_devices_have_no_published_links(self, kind):
        assert published_link("gpu", kind, crosses=False) is None
