"""A pipeline on data × stage by shard_map: each stage has some of the layers and passes its results on."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import PartitionSpec as P

from tests.plans.programs import loop

LAYERS, WIDTH, PARTS, ROWS = 8, loop.width(256), 8, 64


def build(mesh):
    rng = np.random.default_rng(0)
    optimizer = optax.adam(1e-3)
    params = {
        "w": loop.weight(rng, LAYERS, WIDTH, WIDTH, scale=WIDTH**-0.5),
        "b": np.zeros((LAYERS, WIDTH), np.float32),
    }
    state = {"params": params, "opt_state": optimizer.init(params)}
    layout = loop.by_key(mesh, state, {"w": ("stage",), "b": ("stage",)})
    batch = {name: loop.weight(rng, PARTS, ROWS, WIDTH, scale=1) for name in ("x", "y")}
    rows = loop.by_key(mesh, batch, {"x": (None, "data"), "y": (None, "data")})
    stages = mesh.shape["stage"]
    onwards = [(i, (i + 1) % stages) for i in range(stages)]

    def layer(x, weights):
        return jnp.tanh(x @ weights["w"] + weights["b"]), None

    def of_device(params, x, y):
        stage = jax.lax.axis_index("stage")

        def tick(arrived, i):
            taken = jnp.where(stage == 0, x[jnp.minimum(i, PARTS - 1)], arrived)
            result, _ = jax.lax.scan(layer, taken, params)
            return jax.lax.ppermute(result, "stage", onwards), result

        _, results = jax.lax.scan(tick, jnp.zeros_like(x[0]), jnp.arange(PARTS + stages - 1))
        loss = jnp.mean((results[stages - 1 :] - y) ** 2)
        return jax.lax.pmean(jax.lax.psum(jnp.where(stage == stages - 1, loss, 0.0), "stage"), "data")

    specs = (P("stage"), P(None, "data"), P(None, "data"))
    loss_of = jax.shard_map(of_device, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False)

    @partial(jax.jit, donate_argnums=0, out_shardings=(layout, loop.divided(mesh, ())))
    def step(state, batch):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], batch["x"], batch["y"])
        updates, opt_state = optimizer.update(grads, state["opt_state"])
        return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt_state}, loss

    return jax.device_put(state, layout), jax.device_put(batch, rows), step


if __name__ == "__main__":
    loop.main(build)
