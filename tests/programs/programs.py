"""Compiles programs for tests to watch, then waits for `stop` in STEER: COORDINATOR COUNT INDEX.

Alone (COORDINATOR `-`) it launches `step`, whose sizes are easy to tell by hand; `storm` in STEER has it
compile `unsteady` for arrays of another size, and `forget` has it drop these programs. `fresh` has it
compile a new lambda, whose program it drops, and an operation outside of `jax.jit`. With others it compiles,
and does not launch, `split`: a program over all processes with a constant that is another on each of them.
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

coordinator, count, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
steer = Path(os.environ["STEER"])

agent.start(name="programs")
if coordinator != "-":
    jax.distributed.initialize(coordinator, count, index)
mesh = Mesh(np.array(jax.devices()), ("data",))
rows = NamedSharding(mesh, P("data", None))


@jax.jit
def step(weights, batch):
    return weights + 1.0, (batch * 2.0).sum()


@jax.jit
def unsteady(x):
    return jnp.sin(x).sum()


def split(x):
    return (x * (index + 1)).sum()


def same(x):
    return (x * 3).sum()


if coordinator == "-":
    weights, batch = jnp.ones((32, 16), jnp.float32), jnp.ones((8, 4), jnp.float32)
    fresh, size = 0, 2
    while not (steer / "stop").exists():
        weights, _ = step(weights, batch)
        if (steer / "storm").exists():
            (steer / "storm").unlink()
            size += 1
            unsteady(np.ones(size, np.float32))
        if (steer / "fresh").exists():
            (steer / "fresh").unlink()
            fresh += 1
            jax.jit(lambda x: jnp.cos(x).sum())(batch)  # the fresh function
            jnp.tan(np.ones(fresh, np.float32))
        if (steer / "forget").exists():
            unsteady.clear_cache()
            (steer / "forget").unlink()
        time.sleep(0.02)
else:
    told = jax.ShapeDtypeStruct((mesh.size, 4), np.float32, sharding=rows)
    kept = [jax.jit(each).lower(told).compile() for each in (split, same)]
    jax.jit(lambda x: x + index)(np.ones(3, np.float32))
    (steer / f"ready-{index}").touch()
    while not (steer / "stop").exists():
        time.sleep(0.05)
