"""Messages for tests, with defaults that can be replaced; and the frames of small runs made of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from jaxtop import wire
from jaxtop.model import Cluster
from jaxtop.wire import LinkState

if TYPE_CHECKING:
    from collections.abc import Iterable

NOW = 1_800_000_000.0
PROCESSES, DEVICES = 2, 4


def frame(agent: str, message: wire.Message, at: float = NOW, sequence: int = 1) -> wire.Frame:
    return wire.Frame(at, agent, wire.kind_of(message), sequence, wire.encode(message))


def folded(frames: Iterable[wire.Frame], until: float = math.inf) -> Cluster:
    """Return what a viewer knows that has followed the run from the start to this moment."""
    cluster = Cluster()
    for each in frames:
        if each.at > until:
            break
        cluster.feed(each)
    return cluster


def agent_id(index: int) -> str:
    return f"{index:016x}"


def hello(
    index: int, processes: int = PROCESSES, devices: int | tuple[wire.Device, ...] = DEVICES, **more: Any
) -> wire.Hello:
    """Return the hello of a process of run r1, with these devices or so many CPUs."""
    if isinstance(devices, int):
        devices = tuple(wire.Device(index * devices + i, "cpu", "cpu", i) for i in range(devices))
    defaults = {
        "agent": agent_id(index),
        "hostname": f"node{index:02}",
        "pid": 1000 + index,
        "process_started_ticks": 1,
        "boot": "b",
        "pid_namespace": "pid:[1]",
        "started_ms": int(NOW * 1000),
        "telemetry": f"10.0.0.{index}:7411",
        "requests": f"10.0.0.{index}:7410",
        "interval_ms": 1000,
        "jaxtop": "0.1.0",
        "python": "3.11.7",
        "name": "train",
        "run": "r1",
        "process_index": index,
        "process_count": processes,
        "jax": "0.10.2",
        "platform": "cpu",
        "devices": devices,
    }
    return wire.Hello(**{**defaults, **more})


def pulse(index: int, at: float = NOW, devices: int = DEVICES, launches: int = 10, **more: Any) -> wire.Pulse:
    used = tuple((index * devices + i + 1) << 20 for i in range(devices))
    return wire.Pulse(
        at_ms=int(at * 1000),
        sampled_ms=int(at * 1000),
        memory_source="arrays",
        devices=wire.DeviceSample(used_bytes=used),
        host=wire.HostSample(500, 400 << 20, 12, 250, 4 << 30, 16 << 30, 150, 1000, 1000),
        launches={"train_step": launches},
        step=wire.Step(launches, launches, {"loss": 2.5}),
        cost=wire.AgentCost(2000, 0, 1),
        **more,
    )


def arrays(processes: int = PROCESSES, devices: int = DEVICES) -> wire.Arrays:
    ids = wire.pack_ids(tuple(range(processes * devices)))
    mesh = wire.Mesh((("data", processes * devices // 2), ("model", 2)), ids)
    sharding = wire.Sharding("named", "P('data', None)", 0, (), "device")
    group = wire.ArrayGroup((8, 8), "float32", 0, 256, 64)
    return wire.Arrays(int(NOW * 1000), meshes=(mesh,), shardings=(sharding,), groups=(group,), counts=(1,))


# The arrays of a small training run by name: shape, dtype, sharding, role.
STATE = {
    **{
        f"state.params['Dense_{i}']['{name}']": (shape, "float32", sharding, "parameters")
        for i in range(3)
        for name, shape, sharding in (("kernel", (1024, 512), 0), ("bias", (512,), 1))
    },
    **{
        f"state.opt_state[0].{moment}['Dense_{i}']['{name}']": (shape, "float32", sharding, "optimizer")
        for moment in ("mu", "nu")
        for i in range(3)
        for name, shape, sharding in (("kernel", (1024, 512), 0), ("bias", (512,), 1))
    },
    "state.opt_state[0].count": ((), "int32", 1, "optimizer"),
    "state.step": ((), "int32", 1, None),
    "batch['image']": ((256, 784), "bfloat16", 2, "batch"),
    "batch['label']": ((256,), "int32", 2, "batch"),
}
WIDTHS = {"float32": 4, "bfloat16": 2, "int32": 4}


def census(at: float = NOW, leaked: int = 0) -> wire.Arrays:
    """Return the arrays of a training run on a 2 × 4 mesh: its state, a batch, some unnamed ones, a tail."""
    mesh = wire.Mesh((("data", 2), ("model", 4)), wire.pack_ids(tuple(range(8))))
    named = ("named", "P('data', 'model')", (("data",), ("model",))), ("named", "P()", ())
    shardings = (
        *(wire.Sharding(kind, spec, 0, (), "device", parts) for kind, spec, parts in named),
        wire.Sharding("named", "P('data',)", 0, (), "device", (("data",),)),
        wire.Sharding("single", "SingleDevice", None, ((0, 1),), "pinned_host", None, ()),
    )
    groups, counts = [], []
    for name, (shape, dtype, sharding, role) in STATE.items():
        size = math.prod(shape) * WIDTHS[dtype]
        held = size // (8, 1, 2)[sharding]
        groups.append(
            wire.ArrayGroup(shape, dtype, sharding, size, held, name, "train", role, "train.py:57 init")
        )
        counts.append(1)
    for shape, created, count in (
        ((64, 64), "train.py:88 log_metrics", 3 + leaked),
        ((128,), "train.py:88 log_metrics", 2),
        ((33,), None, 1),
    ):
        size = math.prod(shape) * 4
        groups.append(wire.ArrayGroup(shape, "float32", 3, size, size, created=created))
        counts.append(count)
    groups.append(wire.ArrayGroup((), "", 1, 40_960, 40_960, groups=37))
    counts.append(112)
    return wire.Arrays(
        int(at * 1000), 1, int(at - NOW) + 1000, (mesh,), shardings, tuple(groups), tuple(counts)
    )


def training(at: float = NOW) -> list[wire.Frame]:
    """Return the frames of `well` with the arrays of `census`, which have grown for half a minute."""
    frames = [each for each in well(at) if each.kind != "arrays"]
    for index in range(PROCESSES):
        for seconds, leaked in ((30, 0), (0, 40)):
            frames.append(frame(agent_id(index), census(at - seconds, leaked), at - seconds))
    return frames


def well(at: float = NOW, processes: int = PROCESSES, devices: int = DEVICES) -> list[wire.Frame]:
    """Return the frames of a healthy run, shortly after the viewer has connected."""
    frames: list[wire.Frame] = []
    for index in range(processes):
        agent = agent_id(index)
        frames += [
            frame(agent, wire.Link(LinkState.UP, f"10.0.0.{index}:7411"), at - 2, 0),
            frame(agent, hello(index, processes, devices), at - 2),
            frame(agent, arrays(processes, devices), at - 2),
            frame(agent, pulse(index, at - 1, devices, 10), at - 1),
            frame(agent, pulse(index, at, devices, 20), at, 2),
        ]
    return frames


def trouble(index: int, state: str) -> wire.Frame:
    return frame(agent_id(index), wire.Link(LinkState(state), f"10.0.0.{index}:7411"), sequence=0)


def two_processes(seconds: int = 30, died_at: int | None = None) -> list[wire.Frame]:
    """Return the frames of two processes, of which one may die."""
    frames = well()
    for i in range(1, seconds):
        if i == died_at:
            frames.append(frame(agent_id(1), wire.Link(LinkState.CLOSED, "x"), NOW + i, 0))
        for index in range(2 if died_at is None or i < died_at else 1):
            frames.append(
                frame(agent_id(index), pulse(index, NOW + i, launches=20 + 10 * i), NOW + i, 10 + i)
            )
    return frames
