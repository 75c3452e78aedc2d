"""Collectives of a program that never ran: inventories, and windows with a known latecomer and noise.

The mesh is (data, model), one host a row of it. Each launch begins when a host is ready; who is late is late
for the first collective over `data`, after which all are in step again.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import NamedTuple

from jaxtop import wire

PROGRAM, FINGERPRINT = "jit_train_step", "a1b2c3d4"
# What one launch runs: op, kind, axes, source, bytes, how long it takes once all are there.
OPS = (
    ("all-gather.1", "all-gather", ("model",), "all_gather", 8 << 20, 900),
    ("all-reduce.3", "all-reduce", ("data",), "psum", 64 << 20, 6_000),
    ("reduce-scatter.5", "reduce-scatter", ("data",), "psum_scatter", 32 << 20, 3_000),
    ("all-to-all.7", "all-to-all", ("model",), "all_to_all", 4 << 20, 700),
    ("collective-permute.9", "collective-permute", ("data",), "ppermute", 2 << 20, 500),
    ("all-reduce.11", "all-reduce", ("data", "model"), "pmean", 4, 300),
)
LAUNCH_US = 180_000
GAP_US = 20_000


class Made(NamedTuple):
    """A made-up run: who is late by how much, and how much noise there is."""

    hosts: int
    devices: int
    late: int | None = None
    late_us: int = 60_000
    noise_us: int = 3_000
    seed: int = 7


def inventory(made: Made, index: int, at_ms: int = 1) -> wire.Inventory:
    """What the agent of a host reads in the program's text."""
    first, total = index * made.devices, made.hosts * made.devices
    return wire.Inventory(
        at_ms=at_ms,
        program=PROGRAM,
        fingerprint=FINGERPRINT,
        devices=total,
        local_ids=((first, made.devices),),
        groups=(
            wire.ReplicaGroups((made.devices,), ((0, total, 1),)),
            wire.ReplicaGroups(
                (made.hosts,), tuple((i, made.hosts, made.devices) for i in range(made.devices))
            ),
            wire.ReplicaGroups((total,), ((0, total, 1),)),
        ),
        collectives=tuple(
            wire.Collective(
                op, kind, f"f32[{size // 4}]", size, _groups(axes), 1, source=source, line=f"train.py:{line}"
            )
            for line, (op, kind, axes, source, size, _) in enumerate(OPS, start=40)
        ),
    )


def program(made: Made) -> wire.Program:
    """The program that has them."""
    return wire.Program(PROGRAM, FINGERPRINT, made.hosts * made.devices, made.devices, 10**12, 10**9)


def _groups(axes: tuple[str, ...]) -> int:
    return {("model",): 0, ("data",): 1}.get(axes, 2)


def window(made: Made, index: int, number: int, launches: int = 5, at_ms: int = 1) -> wire.Window:
    """The window with this number, as the host with this index saw it; all see the same launches."""
    found, timed = [], []
    for i in range(launches):
        run_id = number * launches + i
        ready = _ready(made, run_id)
        begin = i * (LAUNCH_US + GAP_US) + ready[index]
        spent = at = 0
        for op in range(len(OPS)):
            durations, start = _one(made, index, run_id, op, at)
            timed.append(wire.Round(i, op, 0, begin + start, durations))
            spent += max(durations)
            at = start + max(durations)
        duration = LAUNCH_US + max(ready) - ready[index]
        found.append(wire.Launch(0, run_id, begin, duration, spent, spent * 2 // 3))
    return wire.Window(
        at_ms=at_ms,
        duration_us=launches * (LAUNCH_US + GAP_US) + 50_000,
        slot=number,
        programs=((PROGRAM, FINGERPRINT),),
        ops=tuple(op for op, *_ in OPS),
        launches=tuple(found),
        rounds=tuple(timed),
    )


@lru_cache(maxsize=64)
def _ready(made: Made, run_id: int) -> tuple[int, ...]:
    """When each host comes to the launch, by a clock that no host has."""
    dice = random.Random(made.seed * 1_000_003 + run_id)
    noise = [round(dice.lognormvariate(0, 0.6) * made.noise_us) for _ in range(made.hosts)]
    if made.late is not None:
        noise[made.late] += made.late_us
    return tuple(noise)


def _one(made: Made, index: int, run_id: int, op: int, at: int) -> tuple[tuple[int, ...], int]:
    """How long a collective took on each device of a host, and its start after that of the launch."""
    _, _, axes, _, _, transfer = OPS[op]
    dice = random.Random(((made.seed * 1_000_003 + run_id) * 64 + op) * 8192 + index)
    start = at + LAUNCH_US // (2 * len(OPS))
    wait = 0
    if op == 1:  # the first over all hosts: all wait for the last
        ready = _ready(made, run_id)
        wait = max(ready) - ready[index]
    elif "data" in axes:
        wait = round(dice.random() * made.noise_us / 4)
    return tuple(wait + transfer + dice.randrange(1 + made.noise_us // 8) for _ in range(made.devices)), start
