"""A perceptron, fully sharded: an axis divides weights, Adam's moments and the batch."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.plans.programs import loop

WIDTH, LAYERS, ROWS = loop.width(768), 4, 64


class State(NamedTuple):
    params: Any
    opt_state: Any
    step: Any


def build(mesh):
    rng = np.random.default_rng(0)
    optimizer = optax.adam(1e-3)
    params = {
        f"layer{i}": {
            "w": loop.weight(rng, WIDTH, WIDTH, scale=WIDTH**-0.5),
            "b": np.zeros(WIDTH, np.float32),
        }
        for i in range(LAYERS)
    }
    state = State(params, optimizer.init(params), np.zeros((), np.int32))
    layout = loop.by_largest(mesh, state, "fsdp")
    batch = {"x": loop.weight(rng, ROWS, WIDTH, scale=1), "y": loop.weight(rng, ROWS, WIDTH, scale=1)}
    rows = NamedSharding(mesh, P(("data", "fsdp")))

    def loss_of(params, x, y):
        for layer in params.values():
            x = jax.lax.with_sharding_constraint(jax.nn.gelu(x @ layer["w"] + layer["b"]), rows)
        return jnp.mean((x - y) ** 2)

    @partial(jax.jit, donate_argnums=0, out_shardings=(layout, loop.divided(mesh, ())))
    def step(state, batch):
        loss, grads = jax.value_and_grad(loss_of)(state.params, batch["x"], batch["y"])
        updates, opt_state = optimizer.update(grads, state.opt_state)
        return State(optax.apply_updates(state.params, updates), opt_state, state.step + 1), loss

    return jax.device_put(state, layout), jax.device_put(batch, rows), step


if __name__ == "__main__":
    loop.main(build)
