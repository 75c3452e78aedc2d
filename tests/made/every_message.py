"""One message of every kind, and what a network may make of its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.wire import LinkState

if TYPE_CHECKING:
    import random

DEVICE = wire.Device(
    id=2048, kind="NVIDIA H100", platform="gpu", local_id=0, coords=(0, 1, 2), core_on_chip=1, slice_index=3
)
NATIVE = wire.NativeStack(
    (
        wire.NativeFrame("python", "python", 0, 14),
        wire.NativeFrame("gloo::allreduce", "libjax_common.so"),
        wire.NativeFrame("", "libc.so.6", 0x85F16),
    ),
    "gloo::allreduce",
    "its time is over",
)
PEER = wire.Peer(
    agent="a1",
    process_index=1,
    hostname="node01",
    pid=77,
    process_started_ticks=12345,
    boot="boot",
    pid_namespace="pid:[1]",
    telemetry="10.0.0.1:7411",
    requests="10.0.0.1:7410",
)
HELLO = wire.Hello(
    agent="a1",
    hostname="Zürich-节点",
    pid=77,
    process_started_ticks=None,
    boot="boot",
    pid_namespace="pid:[1]",
    started_ms=1_767_323_045_678,
    telemetry="[fe80::1]:7411",
    requests="[fe80::1]:7410",
    interval_ms=1000,
    jaxtop="0.1.0",
    python="3.11.7",
    argv=("train.py", "--lr", "3e-4"),
    name="train",
    run="r1",
    process_index=1,
    process_count=2,
    jax="0.10.2",
    jaxlib="0.10.2",
    platform="gpu",
    devices=(DEVICE,),
    sources={"arrays": "on", "collectives": "off: on request"},
)
PULSE = wire.Pulse(
    at_ms=10,
    sampled_ms=9,
    memory_source="allocator",
    devices=wire.DeviceSample(used_bytes=(1 << 36, None), power_mw=(350_000, None)),
    host=wire.HostSample(process_cpu_permille=1503, rss_bytes=1 << 30),
    launches={"step": 123},
    compiling=(wire.Compiling("train_step", 5),),
    step=wire.Step(7, 8, {"loss": 2.5}),
    cost=wire.AgentCost(cpu_ppm=4000, dropped=1, viewers=2),
    stall=wire.Stall("step", 5, 1000),
)
ARRAYS = wire.Arrays(
    at_ms=10,
    meshes=(wire.Mesh((("data", 2), ("model", 4)), ((0, 4), (2048, 4))),),
    shardings=(wire.Sharding("NamedSharding", "P('data', None)", 0, ((0, 4),), "device"),),
    groups=(
        wire.ArrayGroup(
            (1024, 512),
            "float32",
            0,
            1 << 21,
            1 << 20,
            "state.params['w']",
            "train",
            "parameters",
            "a.py:1 f",
        ),
        wire.ArrayGroup((), "", 0, 64, 16, "state", "train", groups=5),
    ),
    counts=(3, 9),
)
CHANGE = wire.ArraysChange(
    11,
    0,
    1,
    ((0, 2),),
    ((2, wire.ArrayGroup((4,), "int8", 1, 4, 4)),),
    (),
    (wire.Sharding("single", "", None, ((0, 1),), None),),
)
PROGRAMS = wire.Programs(
    at_ms=10,
    programs=(wire.Program("jit_step", "1f", devices=8, flops=1000, created="a.py:1 f"),),
    compiles={"step": 2},
)
MESSAGES = (
    HELLO,
    PULSE,
    ARRAYS,
    CHANGE,
    PROGRAMS,
    wire.Inventory(
        10,
        "jit_step",
        "1f",
        8,
        ((0, 4),),
        (wire.ReplicaGroups((4,), ((0, 4, 2), (1, 4, 2))),),
        (wire.Collective("psum.25", "all-reduce", "f32[16,32]", 2048, 0, 3, source="psum"),),
        rest=1,
    ),
    wire.Peak(
        10, "jit_step", "1f", 8, 4, 4, 64, 60, "sort.1", "t.py:3", (wire.Buffer("result", 4, "add.1"),)
    ),
    wire.Window(
        10,
        250_000,
        slot=7,
        programs=(("jit_step", "1f"),),
        ops=("psum.25",),
        launches=(wire.Launch(0, -805576807, 200, 41_000, 3000, 1000),),
        rounds=(wire.Round(0, 0, 2, 900, (1200, None, 40, 39)),),
    ),
    wire.Operations(
        10,
        "jit_step",
        "1f",
        8,
        (wire.Operation("fusion.1", "fusion", "train.py:12", 900, 8, 100, 200),),
        50,
        3,
        {"fusion": 20},
    ),
    wire.Nccl(
        10,
        "2.29.2",
        3,
        5_000,
        (
            wire.NcclCommunicator(
                "0xae94",
                8,
                "AllReduce",
                (wire.NcclCount(6650, 7), wire.NcclCount(6649, 1, (wire.NcclRank(5, "10.0.0.1", 77, 1),))),
            ),
            wire.NcclCommunicator("0xae95", 8, unresponsive=(wire.NcclRank(6, "10.0.0.1", 78),)),
        ),
    ),
    wire.NcclTimes(10, 5_000, 300, (wire.NcclTime("all-reduce", 8, 1 << 20, 40, 120, 300),)),
    wire.TpuCores(10, 5_000, (wire.TpuCore(3, 1, True, 0x3F2, "%all-reduce.7", "abcd", 77, 5, 2, "HBM"),)),
    wire.Scalars(
        10,
        (
            wire.Scalar("loss", 840, 3.5e38, 3, 838, 2.31, 837),
            wire.Scalar("aux_loss", 840, 9.5, rise=wire.Rise(830, 9.5, 840, 1.5, 2.5, 2.0, "grad_norm", 12)),
            wire.Scalar("params/embed", 840, 12.5, nonfinite=0.0, same=300, same_step=540),
        ),
    ),
    wire.Curves(10, (wire.ScalarCurve("loss", 5, 2_000, b"\0\0 @\0\0\xc0\x7f\0\0\x10@"),)),
    wire.Ledger(
        10_000,
        0,
        (2_000, 3_000, 0, 0, 5_000),
        100,
        "job 7",
        (wire.Save(6_000, 500, 6_500, 40, "orbax"), wire.Save(9_000, 400, None, None, "stack")),
        (wire.LedgerPoint(5_000, (2_000, 3_000)),),
    ),
    wire.Activity(
        10,
        20_000,
        (70, 20, 8, 2),
        (wire.ActiveLine(wire.Place("train.py", 54, "load"), wire.SCRIPT, 70),),
        3,
        900,
        500,
        40,
        wire.InputQueue("threads", 0, 4, 50, 46, 1),
    ),
    wire.Stacks(
        10,
        (
            wire.Thread("MainThread", True, (wire.Place("train.py", 88, "load_batch"),)),
            wire.Thread("tf_XLAEigen", False, (), native=NATIVE),
        ),
    ),
    wire.Compile(10, "step", 1500),
    wire.Event(10, "warning", "source", "arrays is off"),
    wire.Bye(10, "ended"),
    wire.Roster("a1", (PEER,), run="r1", name="train", process_count=2),
    wire.Link(LinkState.CLOSED, "10.0.0.1:7411", "why"),
)


def parts(message: wire.Message, version: int = wire.VERSION, sequence: int = 5) -> list[bytes]:
    header = wire.Header(version, "a1", sequence)
    return wire.pack(wire.kind_of(message), header, wire.encode(message))


def mutated(raw: bytes, dice: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(5):
            case 0:
                del data[at:]
            case 1:
                data[at : at + 1] = dice.randbytes(1)
            case 2:
                data[at:at] = dice.randbytes(dice.randint(1, 8))
            case 3:
                data[at:at] = data[: dice.randint(1, 40)]
            case 4:
                del data[at : at + dice.randint(1, 8)]
    return bytes(data)
