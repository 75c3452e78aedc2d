"""Trains with evaluations and checkpoints between, and times its steps itself: each, or so many at once.

Where it times several at once it reads the loss after these, and launches ahead of the device until then.
"""

import json
import sys
import time
from pathlib import Path

from jaxtop import agent

agent.start()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

stride, written = int(sys.argv[1]), Path(sys.argv[2])


@jax.jit
def train_step(weights, batch):
    def loss_of(weights):
        return jnp.mean((jnp.tanh(batch @ weights) @ weights.T) ** 2)

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return weights - 0.1 * gradient, loss


@jax.jit
def evaluate(weights, batch):
    return jnp.mean(batch @ weights)


weights, batch = jnp.ones((384, 384)) / 384, jnp.ones((384, 384))
for each in (train_step(weights, batch)[0], evaluate(weights, batch)):
    each.block_until_ready()
times = []
began = time.perf_counter()
for i in range(1, 240 // stride + 1):
    for _ in range(stride):
        weights, loss = train_step(weights, batch)
    loss.block_until_ready()
    ended = time.perf_counter()
    times += [(ended, (ended - began) / stride)] * stride
    began = ended  # what holds the script up between two steps is part of a step, as it is for the agent
    if i * stride % 20 == 0:
        for _ in range(15):
            evaluate(weights, batch).block_until_ready()
        if i * stride % 60 == 0:
            time.sleep(0.8)  # a checkpoint
        began = time.perf_counter()
part = written.with_suffix(".part")
part.write_text(json.dumps(times))
part.rename(written)
time.sleep(600)
