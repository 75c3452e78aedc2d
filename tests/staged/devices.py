"""More for the stage: programs, and devices whose allocators count."""

from __future__ import annotations

from msgspec.structs import replace

from jaxtop import wire
from tests import builders
from tests.builders import NOW, agent_id, frame

GIB = 1 << 30
MIB = 1 << 20

STEP = wire.Program(
    "jit_train_step", "5d41402abc4b2a76", 8, 4, 21_500_000_000_000, 180 * GIB // 10, 61 * GIB // 10,
    58 * GIB // 10, 57 * GIB // 10, 92 * GIB // 10, 3 * MIB, "train.py:102 main",
)  # fmt: skip
OTHER_STEP = replace(STEP, fingerprint="7d793037a0760186")
EVALUATE = wire.Program(
    "jit_evaluate", "9a0364b9e99bb480", 8, 4, 7_100_000_000_000, 4 * GIB, 61 * GIB // 10, 4096, 0, 12 * GIB,
    MIB, "train.py:140 evaluate",
)  # fmt: skip
SAMPLE = wire.Program(
    "jit_sample", "e1671797c52e15f7", 1, 1, 3_000, 8192, 4096, 64, 0, 0, 0, "sample.py:7 draw"
)
INIT = wire.Program("jit__normal", "8277e0910d750195", 1, 1, None, None, 16, 2 * MIB, 0, 2 * MIB)
PROGRAMS = (SAMPLE, EVALUATE, STEP, INIT)


def programs(index: int, *listed: wire.Program, at: float = NOW, **more) -> wire.Frame:
    """What a process says of its programs."""
    at_ms = int(at * 1000)
    columns = {"seen_ms": (at_ms - 60_000,) * len(listed), "compile_ms": (12_400,) * len(listed)}
    counts = {program.name: 2 if program is EVALUATE else 1 for program in listed}
    message = wire.Programs(at_ms, listed, **{**columns, "compiles": counts, **more})
    return frame(agent_id(index), message, at)


def allocated(index: int, at: float = NOW, launches: int = 20, used: int = 13 * GIB) -> wire.Pulse:
    """A pulse of a process whose devices have allocators; its last device is the fullest."""
    pulse = builders.pulse(index, at, launches=launches)
    n = builders.DEVICES
    figures = wire.DeviceSample(
        used_bytes=tuple(used + (index * n + i) * GIB // 4 for i in range(n)),
        peak_bytes=tuple(used + GIB + (index * n + i) * GIB // 4 for i in range(n)),
        limit_bytes=(24 * GIB,) * n,
        reserved_bytes=(0,) * n,
        largest_free_bytes=(8 * GIB,) * n,
        pool_bytes=(24 * GIB,) * n,
    )
    return replace(pulse, memory_source="allocator", devices=figures)


def compiled() -> list[wire.Frame]:
    """A run whose processes have the same programs; the evaluation would not fit."""
    frames = builders.well()
    for index in range(builders.PROCESSES):
        agent = agent_id(index)
        launched = replace(allocated(index), launches={"train_step": 20, "sample": 7})
        frames += [programs(index, *PROGRAMS), frame(agent, launched, sequence=3)]
    return frames


def at_odds() -> list[wire.Frame]:
    """The second process compiled another step, and compiles one function over and over."""
    frames = compiled()
    storm = {"compiles": {"jit_sample": 17, "jit_train_step": 1}, "recompiling": ("jit_sample",)}
    frames.append(programs(1, SAMPLE, EVALUATE, OTHER_STEP, INIT, **storm))
    return frames


def held() -> list[wire.Frame]:
    """The run above, with the arrays that it holds; those of one line grow."""
    frames = [each for each in compiled() if each.kind != "arrays"]
    for index in range(builders.PROCESSES):
        agent = agent_id(index)
        for ago in reversed(range(6)):
            at = NOW - 10 * ago
            frames.append(frame(agent, large(at, 60 - 10 * ago), at))
    return frames


def counted() -> list[wire.Frame]:
    """A run without allocators: what its devices hold is what its arrays hold."""
    frames = builders.well()
    for index in range(builders.PROCESSES):
        frames += [frame(agent_id(index), builders.census()), programs(index, STEP)]
    return frames


def large(at: float, logged: int) -> wire.Arrays:
    """A census of large arrays on a mesh of 2 × 4."""
    mesh = wire.Mesh((("data", 4), ("model", 2)), wire.pack_ids(tuple(range(8))))
    sharding = wire.Sharding("named", "P('data', 'model')", 0, (), "device")
    sizes = (
        ("state.params['w']", "parameters", 2 * GIB),
        ("state.opt_state[0].mu['w']", "optimizer", 2 * GIB),
        ("state.opt_state[0].nu['w']", "optimizer", 2 * GIB),
        ("grads['w']", "gradients", 2 * GIB),
        ("batch['image']", "batch", GIB // 4),
        ("cache['keys']", None, GIB // 2),
        (None, None, 4 * MIB),
    )
    groups = tuple(
        wire.ArrayGroup(
            (size // 4,), "float32", 0, size * 8, size, name, "train" if name else None, role,
            None if name else "train.py:88 log_metrics",
        )
        for name, role, size in sizes
    )  # fmt: skip
    counts = (1,) * (len(groups) - 1) + (logged,)
    at_ms = int(at * 1000)
    return wire.Arrays(at_ms, 9, at_ms, meshes=(mesh,), shardings=(sharding,), groups=groups, counts=counts)
