"""The time of a step on another mesh, against runs whose costs are known because they were made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jaxtop import wire
from jaxtop.features.planning.model.plan import Exchange, LinkCost, PlacedArray, StepTime, Tensor, Today
from jaxtop.features.planning.model.times.links import ANY, WITHIN, Links, fitted, links_from, point
from jaxtop.features.planning.model.times.timing import error_of_today, time_of

ASSUMED = LinkCost(0.0, 0.0, "assumed")
DATA8 = (("data", 8), ("model", 1))


def tensor(name, role, shape, parts, **more):
    whole = 4
    for each in shape:
        whole *= each
    pieces = 8 if role == "batch" else 1
    return Tensor(name, role, shape, "float32", parts, whole, whole // pieces, **more)


STATE = (
    tensor("state.params['a']", "parameters", (512, 1024), (("model",),)),
    tensor("state.params['b']", "parameters", (1024, 512), ((), ("model",))),
    tensor("state.opt_state.mu", "optimizer", (512, 1024), (("model",),), count=2),
    tensor("batch['x']", "batch", (64, 512), (("data",),)),
)
GRADIENTS = Exchange("all-reduce.1", "all-reduce", "(f32[512,1024], f32[1024,512])", 4 << 20, ("data",), 1)
# 10 µs for each step of a ring, 1 GB/s on the bus.
LINKS: Links = {
    ("data", "all-reduce"): LinkCost(10.0, 1e9, "measured", is_measured=True),
    (WITHIN, ANY): LinkCost(10, 1e9, "measured"),
}


def today(**more):
    fields = {
        "run": "r1",
        "axes": DATA8,
        "device_ids": tuple(range(8)),
        "devices_per_host": 8,
        "platform": "gpu",
        "device_kind": "unheard of",
        "tensors": STATE,
        "exchanges": (GRADIENTS,),
        "step": StepTime(20.0, 10.0, 7.48, 2.52),
        "links": LINKS,
        "program": wire.Program("jit_step", "f", 8, 8, 10**12, 10**9),
    }
    return Today(**{**fields, **more})


def placed(run, axes):
    sizes = dict(axes)
    found = []
    for each in run.tensors:
        pieces = 1
        for of_dimension in each.parts:
            for axis in of_dimension:
                pieces *= sizes.get(axis, 1)
        found.append(PlacedArray(each, each.parts, each.bytes_global // pieces))
    return tuple(found)


def timed(run, axes):
    return time_of(run, axes, placed(run, axes))


def test_todays_layout_is_predicted_by_the_same_formulas():
    found = timed(today(), DATA8)
    # 14 steps of a ring, and 4 MiB × 2 × 7/8 at 1 GB/s.
    expected = 14 * 0.01 + (4 << 20) * 1.75 / 1e6
    assert found.communication_ms == {"data": pytest.approx(expected)}
    assert found.step.low == pytest.approx(10 + 2.52)
    assert found.step.high == pytest.approx(10 + expected + 2.52)
    assert error_of_today(today())["communication"] == pytest.approx(expected / 7.48 - 1)


def test_a_matrix_axis_divides_gradients_and_reduces_activations():
    found = timed(today(), (("data", 2), ("model", 4)))
    gradients = 2 * 0.01 + (1 << 20) * 1.0 / 1e6
    assert found.communication_ms["data"] == pytest.approx(gradients)
    # One reduction of 32 rows × 1024 for each of the two matrices.
    activations = 2 * 6 * 0.01 + 2 * 32 * 1024 * 4 * 1.5 / 1e6
    assert found.communication_ms["model"] == pytest.approx(activations, rel=0.01)
    assert any("reductions of activations" in each for each in found.assumptions)


def compute_ms(run, axes):
    return float(next(each.value for each in timed(run, axes).bases if each.figure == "compute").split()[0])


def test_fewer_devices_compute_more_each():
    assert compute_ms(today(), (("data", 4), ("model", 1))) == pytest.approx(20, rel=0.1)
    assert compute_ms(today(), (("data", 8), ("model", 2))) == pytest.approx(5, rel=0.1)


def test_devices_that_share_cores_gain_nothing_from_dividing_the_work():
    fast = {(WITHIN, ANY): LinkCost(5.0, 1e11, "measured")}
    run = today(platform="cpu", shared_cores=2, links=fast)
    whole = compute_ms(run, DATA8)
    assert whole == pytest.approx(20 - 2.52 - 8 * 0.005 - 8 * 2 * (4 << 20) / 1e8, rel=0.01)
    assert compute_ms(run, (("data", 4), ("model", 1))) == pytest.approx(whole, rel=0.1)


def test_what_does_not_shrink_with_the_batch_costs_each_device():
    """With few operations, a device is busy with the bytes of its matrices and its state."""
    run = today(program=wire.Program("jit_step", "f", 8, 8, 10**6, 10**7))
    assert compute_ms(run, (("data", 16), ("model", 1))) == pytest.approx(10, rel=0.1)
    assert compute_ms(run, (("data", 8), ("model", 2))) == pytest.approx(5, rel=0.1)


def test_energy_is_device_seconds_where_power_is_unknown():
    found, known = timed(today(), DATA8), timed(today(watts_per_device=300.0), DATA8)
    assert found.energy == pytest.approx(8 * found.step.middle / 1000)
    assert known.energy == pytest.approx(300 * found.energy)


def test_without_a_step_there_is_no_time_but_a_reason():
    found = timed(today(step=None, unknown=("the step: no process reports one",)), DATA8)
    assert found.step is None and found.energy is None
    assert any("no process reports one" in each for each in found.assumptions)
    assert error_of_today(today(step=None)) == {}


def test_a_program_whose_collectives_are_not_known_has_no_time_rather_than_no_communication():
    found = timed(today(exchanges=(), has_inventory=False), DATA8)
    assert found.step is None and not found.communication_ms
    assert any("collectives" in each for each in found.assumptions)


def test_without_any_cost_of_a_link_there_is_no_time_but_a_reason():
    found = timed(today(links=None), DATA8)
    assert found.step is None and any("jaxtop probe" in each for each in found.assumptions)


def test_published_costs_are_marked_as_such():
    found = timed(today(links=None, device_kind="NVIDIA H100 80GB HBM3"), DATA8)
    assert found.step is not None and any("published" in each for each in found.assumptions)


class TestFits:
    def points(self, latency, rate, sizes=(1 << 10, 1 << 16, 1 << 20), kind="all-reduce"):
        return [point(kind, size, 4, latency * 6 + size * 1.5 / rate * 1e6, sharing=0) for size in sizes]

    def test_latency_and_bandwidth_are_found(self):
        found = fitted(self.points(5.0, 2e9), "measured", ASSUMED)
        assert found == LinkCost(pytest.approx(5.0), pytest.approx(2e9), "measured", is_measured=True)

    def test_one_outlier_changes_nothing(self):
        points = self.points(5.0, 2e9, [1 << n for n in range(10, 21)])
        points[4] = points[4]._replace(time_us=1e6)
        found = fitted(points, "measured", ASSUMED)
        assert (found.latency_us, found.busbw_bytes_per_s) == (pytest.approx(5.0), pytest.approx(2e9))

    def test_no_figure_is_ever_negative(self):
        falling = [
            point("all-reduce", size, 4, time, sharing=0) for size, time in ((1 << 10, 90), (1 << 20, 50))
        ]
        found = fitted(falling, "measured", ASSUMED)
        assert found.latency_us >= 0 and found.busbw_bytes_per_s > 0

    def test_one_size_says_that_latency_is_assumed(self):
        found = fitted(self.points(0.0, 2e9, (1 << 20,)), "measured", ASSUMED)
        assert found.latency_us == 0 and "assumed" in found.source
        assert found.busbw_bytes_per_s == pytest.approx(2e9)

    def test_one_size_borrows_the_latency_of_other_kinds(self):
        points = {
            ("data", WITHIN, "all-reduce"): self.points(5.0, 2e9),
            ("data", WITHIN, "collective-permute"): [
                point("collective-permute", 1 << 20, 4, 5.0 + (1 << 20) / 2e9 * 1e6, sharing=0)
            ],
        }
        found = links_from(points, "measured", ASSUMED)
        assert found["data", "collective-permute"].latency_us == pytest.approx(5.0)
        assert found["data", "collective-permute"].busbw_bytes_per_s == pytest.approx(2e9)

    def test_nothing_measured_is_nothing(self):
        assert fitted([], "measured", ASSUMED) is None and links_from({}, "measured", ASSUMED) == {}


def test_the_bandwidth_of_another_kind_over_the_same_axis_is_used():
    run = today(exchanges=(replace(GRADIENTS, kind="all-gather"),), tensors=STATE[3:])
    links = {("data", ANY): LinkCost(10.0, 1e9, "measured")}
    found = timed(replace(run, links=links), DATA8)
    assert found.communication_ms["data"] == pytest.approx(7 * 0.01 + (4 << 20) * 0.875 / 1e6)
    assert any("all kinds over data" in each for each in found.assumptions)
