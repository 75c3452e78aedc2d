"""Plain JAX: a dict of layers, momentum by hand, data and model parallel over a mesh."""

import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))


def place(value, *spec):
    return jax.device_put(value, NamedSharding(mesh, P(*spec)))


def init():
    dice = np.random.default_rng(0)
    sizes = [64, 256, 256, 8]
    return {
        "layers": [
            {
                "w": place(dice.normal(size=(m, n)).astype(np.float32) / m**0.5, None, "model"),
                "b": place(np.zeros(n, np.float32), "model"),
            }
            for m, n in itertools.pairwise(sizes)
        ]
    }


def loss_of(params, x, y):
    for layer in params["layers"][:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    last = params["layers"][-1]
    return jnp.mean((x @ last["w"] + last["b"] - y) ** 2)


@jax.jit
def step(params, momentum, x, y):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 0.01 * m, params, momentum), momentum, loss


def train():
    params = init()
    momentum = jax.tree.map(jnp.zeros_like, params)
    dice = np.random.default_rng(1)
    while True:
        time.sleep(0.05)  # loading data
        x = place(dice.normal(size=(32, 64)).astype(np.float32), "data")
        y = place(dice.normal(size=(32, 8)).astype(np.float32), "data")
        params, momentum, loss = step(params, momentum, x, y)
        if not np.isfinite(float(loss)):
            raise SystemExit("it diverged")


train()
