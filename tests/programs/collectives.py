"""Processes that reduce over a mesh of (data, model): COORDINATOR COUNT INDEX.

Files in STEER command it: `late-INDEX` has seconds that this process sleeps before each step, `stop` ends it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxtop import agent

agent.start("collectives")
coordinator, hosts, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
steer = Path(os.environ["STEER"])
jax.distributed.initialize(coordinator, hosts, index)
mesh = Mesh(np.array(jax.devices()).reshape(-1, 2), ("data", "model"))


def placed(shape, spec):
    value = np.ones(shape, np.float32)
    return jax.make_array_from_callback(shape, NamedSharding(mesh, spec), lambda part: value[part])


def on_each_device(weights, batch):
    hidden = jnp.tanh(batch @ weights)
    for _ in range(4):
        hidden = jnp.tanh(hidden @ weights.T @ weights)
    mean = jax.lax.pmean(hidden.sum(axis=0), "data")  # the first to cross processes: here one waits
    total = jax.lax.psum(jnp.square(mean).sum(), "model")
    return weights + 1e-9 * jax.lax.pmean(total, ("data", "model"))


@jax.jit
def step(weights, batch):
    spread = {"mesh": mesh, "in_specs": (P(None, "model"), P("data", None)), "out_specs": P(None, "model")}
    return jax.shard_map(on_each_device, check_vma=False, **spread)(weights, batch)


def lateness():
    try:
        return float((steer / f"late-{index}").read_text())
    except (OSError, ValueError):
        return 0.0


weights = placed((256, 512), P(None, "model"))
batch = placed((128 * hosts, 256), P("data", None))
while not (steer / "stop").exists():
    time.sleep(0.05 + lateness())  # loading data
    weights = step(weights, batch)
    weights.block_until_ready()
