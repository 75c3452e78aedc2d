"""Who is slow among those that should be alike: made-up rounds, and a probe of made-up processes."""

from __future__ import annotations

import random

import pytest

from jaxtop import wire
from jaxtop.features.probe.peers import compare
from jaxtop.features.probe.verdict import result
from jaxtop.store import saved_probe
from jaxtop.store.probe_figures import probed_collective, probed_device
from jaxtop.wire.probing import CollectiveMeasurement, Here, Meeting, ProbePlan, ProbeReport

ROUNDS = 7
IDS = ((0, 1, 2, 3), (2048, 2049, 2050, 2051))


def rounds(draw, factors, noise, count=ROUNDS):
    """Speeds of devices that reach these factors, on a machine whose speed drifts from round to round."""
    drifts = [draw.uniform(0.4, 1.0) for _ in range(count)]
    return [[factor * drift * draw.lognormvariate(0, noise) for drift in drifts] for factor in factors]


def slow(speeds, tolerance=0.15):
    return [number for number, each in enumerate(compare(speeds, tolerance)) if each.is_slow]


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("devices", [2, 3, 8, 64])
def test_nobody_is_called_slow_for_noise_alone(noise, devices):
    draw = random.Random(devices)
    named = sum(bool(slow(rounds(draw, [1.0] * devices, noise, count=9))) for _ in range(200))
    assert named <= 2


@pytest.mark.parametrize("late", [[5], [0, 1], [4, 5, 6, 7]], ids=["one", "two", "half"])
def test_those_that_are_slow_are_named_however_the_machine_drifts(late):
    """Half of them, too: nothing is faster than it can be."""
    draw = random.Random(1)
    factors = [0.5 if number in late else 1.0 for number in range(8)]
    assert sum(slow(rounds(draw, factors, 0.05)) == late for _ in range(100)) >= 99


def test_a_little_slower_than_the_others_is_not_slow():
    draw = random.Random(2)
    assert slow(rounds(draw, [1.0] * 7 + [0.9], 0.001)) == []


def test_one_that_is_slow_now_and_then_is_not_called_slow():
    speeds = [[1.0] * ROUNDS for _ in range(4)]
    speeds[2][:3] = [0.2] * 3
    assert slow(speeds) == []


def test_a_device_alone_has_nobody_to_be_compared_with():
    assert compare([[1.0] * ROUNDS], 0.15) == []


def test_few_rounds_prove_nothing():
    assert slow([[1.0, 1.0], [1.0, 1.0], [0.1, 0.1]]) == []


def test_a_slow_process_is_named_with_its_devices_its_host_and_its_share():
    probe = made(matrix=(1.0, 0.4))
    assert [each.text for each in probe.slow] == [
        "devices 2048–2051 (process 1 on host1) are slow: matrix rate 0.40 of their peers'"
    ]
    assert [each.figures["matrix_flops_per_s"].is_slow for each in probe.devices] == [False] * 4 + [True] * 4


def test_devices_that_are_slow_together_prove_it_for_each_other():
    """Where each alone would pass for noise: a process that its machine starves is unsteady, too."""
    draw = random.Random(3)
    named = 0
    for _ in range(50):
        noisy = [rounds(draw, [factor] * 4, 0.5, count=10) for factor in (1.0, 0.3)]
        probe = made(rounds_of=noisy)
        named += [each.device_ids for each in probe.slow] == [IDS[1]]
    assert named > 40


def test_times_are_slow_where_they_are_long():
    probe = made(matrix=(1.0, 1.0), trip=(1.0, 4.0))
    assert [(each.device_ids, each.shares) for each in probe.slow] == [
        (IDS[1], {"round_trip_s": pytest.approx(0.25)})
    ]


def test_devices_of_different_kinds_are_not_compared():
    probe = made(matrix=(1.0, 0.1), kinds=("A", "B"))
    assert probe.slow == ()
    assert {each.figures["matrix_flops_per_s"].peers for each in probe.devices} == {1.0, 0.1}


def test_a_group_of_devices_that_is_slow_in_a_collective_is_named():
    probe = made(reduce=(0.001, 0.004))
    assert [each.text for each in probe.slow] == [
        (
            "the group of devices 2048–2051 (process 1 on host1) is slow: "
            "all-reduce over model 0.25 of its peers'"
        )
    ]


def test_a_process_that_comes_last_to_a_collective_is_reported():
    """It waits for nobody: for it a launch was shortest."""
    assert made(data=(0.010, 0.002)).collectives[1].late_process == 1
    assert made(data=(0.010, 0.002)).collectives[1].late_s == pytest.approx(0.008)
    assert made(data=(0.010, 0.0095)).collectives[1].late_process is None


def test_bandwidths_follow_the_definitions_of_nccl_tests():
    """An all-reduce of 4 sends every byte 2 × 3/4 times over each link."""
    probe = made(reduce=(0.001, 0.001), data=(0.001, 0.001))
    within, across = probe.collectives
    assert within.algbw_bytes_per_s == pytest.approx(1_000_000 / 0.001)
    assert within.busbw_bytes_per_s == pytest.approx(1.5 * 1_000_000 / 0.001)
    assert across.busbw_bytes_per_s == pytest.approx(1_000_000 / 0.001)  # of 2: 2 × 1/2


def test_what_was_probed_is_found_for_a_live_device():
    """By the name of its hardware where it has one, else by its place on its host."""
    probe = made(matrix=(1.0, 0.4), uuids=True)
    moved = wire.Device(id=77, kind="A", platform="gpu", local_id=3, uuid="GPU-2049")
    assert probed_device(probe, "elsewhere", moved).id == 2049
    another = wire.Device(id=0, kind="A", platform="gpu", local_id=0, uuid="GPU-of-another-machine")
    assert probed_device(probe, "host0", another) is None
    unnamed = made(matrix=(1.0, 0.4))
    device = wire.Device(id=5, kind="A", platform="gpu", local_id=1)
    found = probed_device(unnamed, "host1", device)
    assert found.rate("matrix_flops_per_s") == pytest.approx(0.4)
    assert found.rate("memory_bytes_per_s") is None
    assert probed_device(unnamed, "host2", device) is None


def test_what_was_probed_is_found_for_a_live_collective():
    """Among the same devices, else among as many."""
    probe = made()
    assert probed_collective(probe, "gpu", "all-reduce", (3, 2, 1, 0), 5_000).axis == "model"
    assert probed_collective(probe, "gpu", "all-reduce", (8, 9), 5_000).axis == "data"
    assert probed_collective(probe, "gpu", "all-gather", (0, 1, 2, 3), 5_000) is None
    assert probed_collective(probe, "tpu", "all-reduce", (0, 1, 2, 3), 5_000) is None


def test_the_last_result_is_kept_for_its_user_alone_and_read_again(home):
    assert saved_probe.last() is None
    probe = made()
    kept = saved_probe.keep(probe)
    assert kept == home / ".local/state/jaxtop/probe.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert saved_probe.last() == probe
    kept.write_bytes(kept.read_bytes()[:-20])
    assert saved_probe.last() is None


def made(  # noqa: PLR0917 - what differs from a run in which all is well
    matrix=(1.0, 1.0),
    trip=(1.0, 1.0),
    reduce=(0.001, 0.001),
    data=(0.001, 0.001),
    kinds=("A", "A"),
    rounds_of=None,
    uuids=False,
):
    """The result of two processes, with four devices each, that reach these figures in every round."""
    meetings = (
        Meeting("model", "all-reduce", 1_000_000, IDS),
        Meeting("data", "all-reduce", 1_000_000, tuple(zip(*IDS, strict=True))),
    )
    plan = ProbePlan(
        ("matmul",), ROUNDS, 0.01, (0, 1), 256, "float32", 4096, 4096, (("data", 2), ("model", 4)), meetings
    )
    reports = [
        ProbeReport(
            Here(
                process=process,
                hostname=f"host{process}",
                boot=f"boot{process}",
                pid=1,
                jax="0.10.2",
                devices=tuple(
                    wire.Device(
                        id=number,
                        kind=kinds[process],
                        platform="gpu",
                        local_id=place,
                        uuid=f"GPU-{number}" if uuids else None,
                    )
                    for place, number in enumerate(IDS[process])
                ),
                device_bytes=(None,) * 4,
                machine_bytes=0,
                cache_bytes=0,
            ),
            {
                "matrix_flops_per_s": (
                    tuple(map(tuple, rounds_of[process])) if rounds_of else ((matrix[process],) * ROUNDS,) * 4
                ),
                "round_trip_s": ((trip[process],) * ROUNDS,) * 4,
            },
            (
                CollectiveMeasurement(0, (reduce[process],) * 20, (reduce[process],) * 20),
                CollectiveMeasurement(1, (data[process],) * 20, (data[process],) * 20),
            ),
        )
        for process in range(2)
    ]
    return result(plan, reports, "0.1.0", 1, 2.0)
