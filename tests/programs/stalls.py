"""Steps of a second, each with an all-reduce over all processes: COORDINATOR COUNT INDEX (`-`: alone).

Files in the folder STEER steer it: `load-INDEX` holds that process in its data loader while it is there,
`compile-INDEX` has it compile a large function of its own, `stop-INDEX` of process 0 ends all in order;
`steps-INDEX` says how many steps were taken.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxtop import agent

# Far longer than a standstill needs to be told, and far shorter than the half minute after which those that
# wait in a collective give it up.
COMPILES_FOR = 15.0

coordinator, count, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
steer = Path(os.environ["STEER"])


@jax.jit
def step(state, batch):
    total = batch.sum(axis=0)
    return state + total[0], total[1]


def compile_for(seconds):
    """Compile a function whose tracing takes so long, however fast the machine is."""

    @jax.jit
    def large(x):
        time.sleep(seconds)
        return x + 1

    large(np.ones((8, 8), np.float32)).block_until_ready()


def put(value):
    sharding = NamedSharding(mesh, P("data"))
    return jax.make_array_from_callback(value.shape, sharding, value.__getitem__)


def asked(what):
    return (steer / f"{what}-{index}").exists()


def load_batch():
    time.sleep(1)
    while asked("load"):
        time.sleep(0.05)
    return put(np.full((mesh.size, 2), (1, asked("stop")), np.float32))


def main():
    state = jax.make_array_from_callback((), NamedSharding(mesh, P()), lambda _: np.zeros((), np.float32))
    steps = 0
    stop = False
    while not stop:
        state, wish = step(state, load_batch())
        steps += 1
        (steer / f"steps-{index}").write_text(str(steps))
        if asked("compile"):
            (steer / f"compile-{index}").unlink()
            compile_for(COMPILES_FOR)
        stop = bool(np.asarray(wish))
    print(steps, float(state), flush=True)


agent.start(name=os.environ.get("NAME", "stalls"))
if coordinator != "-":
    jax.distributed.initialize(coordinator, count, index)
mesh = Mesh(np.array(jax.devices()), ("data",))
try:
    main()
except Exception:  # the others are lost: stay, as a script does that hopes for their return
    time.sleep(120)
    os._exit(1)
