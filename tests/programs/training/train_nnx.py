"""Flax NNX: a module and an optimizer that change in place."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(64, 256, rngs=rngs)
        self.norm = nnx.BatchNorm(256, rngs=rngs)
        self.second = nnx.Linear(256, 256, rngs=rngs)
        self.last = nnx.Linear(256, 8, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.relu(self.second(nnx.relu(self.norm(self.first(x))))))


@nnx.jit
def train_step(model, optimizer, x, y):
    loss, grads = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    optimizer.update(model, grads)
    return loss


def main():
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    dice = np.random.default_rng(1)
    while True:
        time.sleep(0.05)  # loading data
        x = jax.device_put(dice.normal(size=(32, 64)).astype(np.float32))
        y = jax.device_put(dice.normal(size=(32, 8)).astype(np.float32))
        loss = train_step(model, optimizer, x, y)
        if not np.isfinite(float(loss)):
            raise SystemExit("it diverged")


main()
