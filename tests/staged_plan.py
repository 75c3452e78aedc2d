"""More for the stage: a run of which everything that a plan depends on was measured."""

from __future__ import annotations

from msgspec.structs import replace

from jaxtop import wire
from tests import made_windows, staged, staged_collectives
from tests.builders import NOW, agent_id, frame
from tests.made_windows import Made

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
    told = [each for each in staged_collectives.run(MADE) if each.kind not in ("arrays", "programs")]
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
        pulse = replace(staged.allocated(index), rhythm=rhythm)
        told += [
            frame(agent, wire.Programs(1, (program,)), NOW - 20),
            frame(agent, census(), NOW - 20),
            frame(agent, pulse, NOW, 3),
        ]
    return told
