"""For the stage: a run on GPUs of which everything is known, and some of it should worry somebody."""

from __future__ import annotations

import math

from jaxtop import wire
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import DEVICES, NOW, PROCESSES, agent_id, frame
from tests.staged.devices import GIB

KIND = "NVIDIA H100 80GB HBM3"
SECONDS = 90
# The device that is too hot, and the one whose memory is failing; by process and position.
HOT, FAILING = (1, 2), (0, 3)


def hello(index: int) -> wire.Hello:
    """As on the stage, on GPUs."""
    ids = range(index * DEVICES, (index + 1) * DEVICES)
    gpus = tuple(wire.Device(each, KIND, "gpu", i, uuid=f"GPU-{each:08}") for i, each in enumerate(ids))
    return builders.hello(index, devices=gpus, platform="gpu")


def pulse(index: int, ago: int = 0) -> wire.Pulse:
    """The figures of so many seconds ago; each device works in waves of its own."""
    at = NOW - ago
    swing = [math.sin((index * DEVICES + i) - ago / 7) for i in range(DEVICES)]
    hot = [(index, i) == HOT for i in range(DEVICES)]

    def wave(middle: float, by: float) -> tuple[int, ...]:
        return tuple(round(middle + by * each) for each in swing)

    devices = wire.DeviceSample(
        used_bytes=wave(62 * GIB, 4 * GIB),
        peak_bytes=(70 * GIB,) * DEVICES,
        limit_bytes=(74 * GIB,) * DEVICES,
        utilization_permille=wave(930, 60),
        power_mw=tuple(
            697_000 if each else value for each, value in zip(hot, wave(560_000, 80_000), strict=True)
        ),
        temperature_c=tuple(89 if each else value for each, value in zip(hot, wave(64, 5), strict=True)),
        driver_used_bytes=wave(76 * GIB, GIB // 2),
        driver_total_bytes=(80 * GIB,) * DEVICES,
        power_limit_mw=(700_000,) * DEVICES,
        temperature_limit_c=(87,) * DEVICES,
        clock_mhz=tuple(1140 if each else 1980 for each in hot),
        clock_max_mhz=(1980,) * DEVICES,
        memory_clock_mhz=(2619,) * DEVICES,
        memory_activity_permille=wave(520, 90),
        tensor_permille=wave(470, 110),
        occupancy_permille=wave(310, 40),
        dram_permille=wave(440, 100),
        slowed=tuple(0b11 if each else 0 for each in hot),
        energy_mj=wave(9e9, 1e6),
        pcie_received_bytes_per_s=wave(210e6, 60e6),
        pcie_sent_bytes_per_s=wave(48e6, 12e6),
        link_received_bytes_per_s=wave(61e9, 9e9),
        link_sent_bytes_per_s=wave(60e9, 9e9),
        ecc_corrected=(0, 2, 0, 11),
        ecc_uncorrected=tuple(int((index, i) == FAILING) for i in range(DEVICES)),
    )
    host = wire.HostSample(
        process_cpu_permille=2350 + round(300 * swing[0]),
        rss_bytes=41 * GIB,
        rss_anonymous_bytes=36 * GIB,
        rss_file_bytes=2 * GIB,
        rss_shared_bytes=3 * GIB,
        locked_bytes=0,
        pinned_bytes=GIB,
        malloc_used_bytes=9 * GIB,
        malloc_mapped_bytes=21 * GIB,
        malloc_free_bytes=2 * GIB,
        children=8,
        children_rss_bytes=12 * GIB,
        children_anonymous_bytes=9 * GIB,
        machine_anonymous_bytes=(380 + 40 * index) * GIB,
        machine_file_bytes=60 * GIB,
        machine_shared_bytes=8 * GIB,
        threads=212,
        machine_cpu_permille=310 + round(90 * swing[1]),
        memory_used_bytes=(440 + 40 * index) * GIB,
        memory_total_bytes=512 * GIB,
        load_centi=2210,
        received_bytes_per_s=18_000_000,
        sent_bytes_per_s=9_000_000,
        cores_milli=64_000,
        is_container=index == 1,
        cpu_pressure_permille=12,
        memory_pressure_permille=140 if index else 0,
        io_pressure_permille=31,
        held_back_permille=3 if index else 0,
        disk_read_bytes_per_s=900_000_000,
        disk_written_bytes_per_s=2_000_000,
        process_read_bytes_per_s=850_000_000,
        process_written_bytes_per_s=0,
        busy_threads=(wire.BusyThread("MainThread", 940, True), wire.BusyThread("decode_0", 610, False)),
    )
    mean = 412_000 + round(9_000 * swing[2]) + (160_000 if ago in (30, 31, 32) else 0)
    rhythm = wire.Rhythm(
        serial=3,
        functions=("train_step",),
        steps=5000 - 2 * ago,
        mean_us=mean,
        milli_per_s=round(1e9 / mean),
        samples=120,
        p50_us=410_000,
        p90_us=424_000,
        p99_us=566_000,
        flops=190_000_000_000_000,
    )
    return wire.Pulse(
        at_ms=int(at * 1000),
        sampled_ms=int(at * 1000),
        memory_source="allocator",
        devices=devices,
        host=host,
        launches={"train_step": 5000 - 2 * ago},
        step=wire.Step(5000 - 2 * ago, 5000 - 2 * ago, {"loss": 2.5, "tokens": 1_048_576.0}),
        cost=wire.AgentCost(2600, 0, 1),
        rhythm=rhythm,
    )


def working(seconds: int = SECONDS) -> list[wire.Frame]:
    """Two hosts of four GPUs each, and their last minute and a half."""
    frames: list[wire.Frame] = []
    for index in range(PROCESSES):
        agent = agent_id(index)
        start = NOW - seconds
        frames += [
            frame(agent, wire.Link(LinkState.UP, f"10.0.0.{index}:7411"), start, 0),
            frame(agent, hello(index), start),
            frame(agent, builders.arrays(), start),
        ]
    for ago in range(seconds - 1, -1, -1):
        frames += [
            frame(agent_id(index), pulse(index, ago), NOW - ago, seconds - ago) for index in range(PROCESSES)
        ]
    return frames
