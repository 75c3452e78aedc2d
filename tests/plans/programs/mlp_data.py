"""A perceptron, data parallel: weights are whole on each device. The step does not donate its state."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tests.plans.programs import loop

WIDTHS = tuple(map(loop.width, (384, 1024, 1024, 64)))
ROWS = 192


def build(mesh):
    rng = np.random.default_rng(0)
    optimizer = optax.sgd(1e-2, momentum=0.9)
    params = [
        {"w": loop.weight(rng, n, m, scale=n**-0.5), "b": np.zeros(m, np.float32)}
        for n, m in pairwise(WIDTHS)
    ]
    state = {"params": params, "opt_state": optimizer.init(params)}
    layout = loop.by_key(mesh, state, {})
    batch = {
        "x": loop.weight(rng, ROWS, WIDTHS[0], scale=1),
        "y": loop.weight(rng, ROWS, WIDTHS[-1], scale=1),
    }

    def loss_of(params, x, y):
        for layer in params[:-1]:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        return jnp.mean((x @ params[-1]["w"] + params[-1]["b"] - y) ** 2)

    @partial(jax.jit, out_shardings=(layout, loop.divided(mesh, ())))
    def step(state, batch):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], batch["x"], batch["y"])
        updates, opt_state = optimizer.update(grads, state["opt_state"])
        return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt_state}, loss

    rows = loop.by_key(mesh, batch, {"x": ("data",), "y": ("data",)})
    return jax.device_put(state, layout), jax.device_put(batch, rows), step


if __name__ == "__main__":
    loop.main(build)
