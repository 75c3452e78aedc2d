"""Clusters for exports: one where little is known, and one whose every figure is another number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop import wire
from tests.stories import ROSTER, census, cluster_of, hello, host_sample, link, pulse, running

if TYPE_CHECKING:
    from jaxtop.model import Cluster

HOSTILE = 'quote" back\\slash\nnewline\r\ttab, comma; {brace="x"} # EOF \N{SNOWMAN} \x00\x1b[31m'
NOW = 20.0


def cluster(name: str = "node0", function: str = "step", metric: str = "loss") -> Cluster:
    """Two hosts: one says all that can be said, of the other the roster alone tells."""
    gpus = (
        wire.Device(0, "NVIDIA H100", "gpu", local_id=0, coords=(0, 1)),
        wire.Device(2048, "NVIDIA H100", "gpu", local_id=1),
    )
    figures = wire.DeviceSample(
        (1 << 33, None), (1 << 34, 5), (80 << 30, None), (875, 0), (350_500, None), (61, None)
    )
    group = wire.ArrayGroup((8, 4), "float32", 0, 128, 64, name, function)
    return cluster_of(
        *running(0),
        (10, "r1-0", ROSTER),
        (11, "r1-0", hello(0, devices=gpus, hostname=name, platform="gpu")),
        (12, "r1-0", census(group, wire.ArrayGroup((), "int32", 1, 4, 4), counts=(2, 1))),
        (13, "r1-0", pulse(at_ms=13_000, step=wire.Step(1, 1))),
        (
            19,
            "r1-0",
            pulse(
                at_ms=19_000,
                sampled_ms=18_600,
                counted_ms=9_000,
                memory_source="allocator",
                devices=figures,
                host=wire.HostSample(1503, 3 << 30),
                launches={function: 123},
                step=wire.Step(7, 13, {metric: 2.5}),
                cost=wire.AgentCost(4000, 3, 2),
            ),
        ),
        (19, "r1-0", wire.Event(0, "warning", "source", name)),
        (19, "r1-1", link("connecting")),
    )


RHYTHM = wire.Rhythm(
    serial=2,
    functions=("grads", "update"),
    steps=13,
    launches_centi=500,
    mean_us=250_000,
    milli_per_s=3_900,
    samples=13,
    p50_us=240_000,
    p90_us=300_000,
    p99_us=500_000,
    flops=10**12,
)
# From 100 to 700 ms, and nothing runs for 150 of these 600.
LAUNCHES = (
    wire.Launch(0, 1, 100_000, 200_000),
    wire.Launch(0, 2, 250_000, 50_000),
    wire.Launch(0, 3, 400_000, 200_000),
    wire.Launch(0, 4, 650_000, 50_000),
)


def everything() -> Cluster:
    """A host and a device of which all is known, each figure another number."""
    columns = {name: (2 + i,) for i, name in enumerate(wire.DeviceSample.__struct_fields__)}
    columns |= {"slowed": (0b1010,), "energy_mj": (7_500,), "power_limit_mw": (700_000,), "power_mw": (9,)}
    loaders = (
        wire.BusyThread("load", 900, True),
        wire.BusyThread("load", 300, True),
        wire.BusyThread(HOSTILE, 70, False),
    )
    sample = host_sample(1000, is_container=True, busy_threads=loaders)
    gpu = wire.Device(0, "NVIDIA H100", "gpu", local_id=0, uuid="GPU-1")
    return cluster_of(
        *running(0),
        (11, "r1-0", hello(0, devices=(gpu,))),
        (
            19,
            "r1-0",
            pulse(
                at_ms=19_000,
                memory_source="allocator",
                devices=wire.DeviceSample(**columns),
                host=sample,
                step=wire.Step(12, 13, {"tokens": 1000}),
                rhythm=RHYTHM,
            ),
        ),
        (
            19,
            "r1-0",
            wire.Window(at_ms=18_000, duration_us=900_000, programs=(("p", None),), launches=LAUNCHES),
        ),
        (19, "r1-0", wire.Ledger(19_000, 9_000, (2_000, 1_000, 0, 0, 7_000), 12)),
    )
