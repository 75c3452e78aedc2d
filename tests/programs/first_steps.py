"""A run that comes to a halt in its first steps, or only seems to: KIND COORDINATOR COUNT INDEX.

`before`, `first`, `second`, `fifth`: the last process never launches that step (`before`: nothing at all).
`within`: all launch the first step, and one comes to a halt inside of it. `computing`: a launch
takes for ever, and computes. `compiling`: the first step takes long to compile. `alone`: the last process
compiles a function that took a second before, and now takes for ever.
"""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxtop import agent

kind, coordinator, count, index = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
HANGS_AT = {"first": 1, "second": 2, "fifth": 5}.get(kind)
IS_LAST = index == count - 1
SIZE = 1500 if kind == "compiling" else 1

agent.start(name=kind)
jax.distributed.initialize(coordinator, count, index)
mesh = Mesh(np.array(jax.devices()), ("data",))


@jax.jit
def step(state, batch):
    for i in range(SIZE):
        state = jnp.sin(state) + i
    if kind == "within":
        batch = batch + jax.pure_callback(halt, jax.ShapeDtypeStruct((), np.float32), state)
    return state + batch.sum()


def halt(_):
    time.sleep(600)
    return np.float32(0)


@jax.jit
def long(x):
    return jax.lax.while_loop(lambda x: x.sum() < 1e9, lambda x: jnp.tanh(x @ x), x)


@jax.jit
def evaluate(x):
    time.sleep(1 if x.shape == (1,) else 600)  # while it is traced
    return x + 1


def load_batch(number):
    while IS_LAST and number == HANGS_AT:
        time.sleep(0.05)
    value = np.ones((mesh.size,), np.float32)
    return jax.make_array_from_callback(value.shape, NamedSharding(mesh, P("data")), value.__getitem__)


def main():
    if kind == "before" and IS_LAST:
        time.sleep(600)
    state = jax.make_array_from_callback((), NamedSharding(mesh, P()), lambda _: np.zeros((), np.float32))
    if kind == "alone" and IS_LAST:
        evaluate(jnp.ones(1))
        evaluate(jnp.ones(2))
    if kind == "computing":
        long(jnp.eye(64)).block_until_ready()
    for number in range(1, 1000):
        batch = load_batch(number)
        function = step
        state = function(state, batch)
        float(state)
        time.sleep(0.3)


main()
