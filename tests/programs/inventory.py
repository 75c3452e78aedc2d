"""Programs with every kind of collective over a mesh of (data, model): COORDINATOR COUNT INDEX.

Alone (COORDINATOR `-`) or with others. Launches `mapped` (shard_map), `sharded` (plain jit, cut by the
shardings of its arguments) and a pmap, says so by `ready-INDEX` in STEER, then waits for `stop` there;
`forget` has it drop `sharded`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxtop import agent

coordinator, count, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
steer = Path(os.environ["STEER"])

agent.start(name="inventory")
if coordinator != "-":
    jax.distributed.initialize(coordinator, count, index)
mesh = Mesh(np.array(jax.devices()).reshape(-1, 2), ("data", "model"))
rows = mesh.shape["data"]


def placed(shape, spec):
    value = np.ones(shape, np.float32)
    return jax.make_array_from_callback(shape, NamedSharding(mesh, spec), lambda part: value[part])


def on_each_device(a):  # 4 × 6 of float32: 96 bytes
    total = lax.psum(a, "model")
    mean = lax.pmean(a * 2, "data")
    everything = lax.psum(a * 3, ("data", "model"))
    gathered = lax.all_gather(a * 4, "data", tiled=True)
    scattered = lax.psum_scatter(lax.all_gather(a * 5, "data", tiled=True), "data", tiled=True)
    crossed = lax.all_to_all(a * 6, "model", split_axis=1, concat_axis=0, tiled=True)
    shifted = lax.ppermute(a * 7, "data", [(i, (i + 1) % rows) for i in range(rows)])
    looped, _ = lax.scan(lambda c, _: (lax.pmax(c, "data") * 0.5, None), a * 8, None, length=5)
    return total + mean + everything + scattered + shifted + looped + gathered.sum() + crossed.sum()


whole = {"mesh": mesh, "in_specs": P("data", "model"), "out_specs": P("data", "model"), "check_vma": False}


@jax.jit
def mapped(x):
    return jax.shard_map(on_each_device, **whole)(x)


@jax.jit
def sharded(weights, batch):
    return batch @ weights  # contracted over "model", which must be added up


held = [
    mapped(placed((4 * rows, 12), P("data", "model"))),
    sharded(placed((8, 16), P("model", None)), placed((4 * rows, 8), P("data", "model"))),
]
local = jax.local_device_count()
old = jax.pmap(lambda x: x / lax.psum(x, "batch"), axis_name="batch")
held.append(old(np.ones((local, 25), np.float32)))
jax.block_until_ready(held)
(steer / f"ready-{index}").touch()
while not (steer / "stop").exists():
    if (steer / "forget").exists():
        sharded.clear_cache()
    time.sleep(0.05)
