"""More for the stage: a run of which everything that a plan depends on was measured, and a made-up plan."""

from __future__ import annotations

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.features.planning.model.plan import (
    Basis,
    Candidate,
    Goal,
    Interval,
    Move,
    PlacedArray,
    Plan,
    ShardingRule,
    Tensor,
)
from tests.builders import NOW, agent_id, frame
from tests.made import windows as made_windows
from tests.made.windows import Made
from tests.staged import collectives as staged_collectives
from tests.staged import devices as staged_devices

MADE = Made(2, 4, noise_us=300)
GIB = 1 << 30
# Name: shape, role, the axes that divide each dimension, bytes of an element.
STATE = {
    "state.params['w']": ((8192, 65536), "parameters", ((), ("model",)), 4),
    "state.opt_state[0].mu['w']": ((8192, 65536), "optimizer", ((), ("model",)), 4),
    "state.opt_state[0].nu['w']": ((8192, 65536), "optimizer", ((), ("model",)), 4),
    "state.params['norm']": ((8191,), "parameters", (), 4),
    "batch['tokens']": ((512, 2048), "batch", (("data",), ()), 4),
}


def census() -> wire.Arrays:
    mesh = wire.Mesh((("data", 2), ("model", 4)), wire.pack_ids(tuple(range(8))))
    shardings, groups = [], []
    for name, (shape, role, parts, width) in STATE.items():
        pieces = 1
        for axes in parts:
            for axis in axes:
                pieces *= {"data": 2, "model": 4}[axis]
        size = width
        for length in shape:
            size *= length
        groups.append(
            wire.ArrayGroup(shape, "float32", len(shardings), size, size // pieces, name, "train", role)
        )
        shardings.append(wire.Sharding("named", f"P{parts}", 0, (), "device", parts))
    at_ms = int((NOW - 20) * 1000)
    counts = (1,) * len(groups)
    return wire.Arrays(
        at_ms, 1, at_ms, meshes=(mesh,), shardings=tuple(shardings), groups=tuple(groups), counts=counts
    )


def measured() -> list[wire.Frame]:
    """A run of two processes on a mesh of 2 × 4; its devices have 24 GiB."""
    frames = [each for each in staged_collectives.run(MADE) if each.kind not in ("arrays", "programs")]
    program = replace(
        made_windows.program(MADE),
        argument_bytes=6 * GIB,
        output_bytes=6 * GIB,
        alias_bytes=6 * GIB,
        temp_bytes=8 * GIB,
    )
    rhythm = wire.Rhythm(
        1, ("train_step",), 40, 100, mean_us=200_000, milli_per_s=5000, samples=20, p50_us=200_000
    )
    for index in range(MADE.hosts):
        agent = agent_id(index)
        pulse = replace(staged_devices.allocated(index), rhythm=rhythm)
        frames += [
            frame(agent, wire.Programs(1, (program,)), NOW - 20),
            frame(agent, census(), NOW - 20),
            frame(agent, pulse, NOW, 3),
        ]
    return frames


OPTIMIZER = ShardingRule("role=optimizer", axis="data")
MOMENTS = Tensor(
    "state.opt_state[0].mu['w']", "optimizer", (8192, 65536), "float32", ((), ("model",)), 2 * GIB, GIB // 2
)


def candidate(axes, memory, step, communication, *, fits, changes=(), is_today=False, rules=()) -> Candidate:
    return Candidate(
        axes,
        is_today,
        fits,
        GIB,
        Interval(*(each * GIB for each in memory)),
        step and Interval(*step),
        communication,
        changes,
        ("the same arrays and the same global batch as today",),
        (
            Basis("state", "1.0 GiB", "the shards of all named arrays on the fullest device"),
            Basis("temporaries", "8.0 GiB", "the compiler's figure"),
        ),
        (PlacedArray(MOMENTS, ((), ("data", "model")), GIB // 4, "a note on this array"),),
        rules,
        energy=1.6,
    )


def plan() -> Plan:
    """A plan whose figures do not depend on how plans are made."""
    today, data = (("data", 2), ("model", 4)), {"data": 19.2, "model": 3.2}
    less = ("state.opt_state[0].mu['w'] and 1 more divided otherwise: 512 MiB less on a device",)
    whole = ("axis model is gone: what it divided is whole", "24 arrays divided otherwise", "a third change")
    divided = Move(
        "Divide the optimizer state by data",
        "state.opt_state[0].mu['w']: P(None, 'model') → P(None, ('model', 'data'))",
        GIB // 2,
        -1.5,
        "each process holds all of it",
        (OPTIMIZER,),
    )
    return Plan(
        "r1",
        Goal.THROUGHPUT,
        24 * GIB,
        (
            candidate(today, (14, 14), (192, 215), data, fits=True, is_today=True),
            candidate(today, (12.7, 15.4), (191, 214), data, fits=True, changes=less, rules=(OPTIMIZER,)),
            candidate((("data", 8),), (7.6, 59.2), (202, 341), {"data": 138.0}, fits=None, changes=whole),
            candidate((("data", 1),), (59.2, 59.2), None, {}, fits=False, changes=("1 device instead of 8",)),
        ),
        (divided,),
        {"step": 0.02, "communication": -0.1},
        ("some collectives of the program were not timed in a window yet",),
    )
