"""A mixture of experts on data × expert: each token goes to one expert, as far as it has room."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.plans.programs import loop

GROUPS, TOKENS, EXPERTS, ROOM = 8, 128, 8, 32
WIDTH, HIDDEN = loop.width(128), loop.width(512)


def build(mesh):
    rng = np.random.default_rng(0)
    optimizer = optax.adam(1e-3)
    params = {
        "gate": loop.weight(rng, WIDTH, EXPERTS),
        "up": loop.weight(rng, EXPERTS, WIDTH, HIDDEN),
        "down": loop.weight(rng, EXPERTS, HIDDEN, WIDTH),
    }
    state = (params, optimizer.init(params))
    layout = loop.by_key(mesh, state, {"up": ("expert",), "down": ("expert",)})
    batch = {name: loop.weight(rng, GROUPS, TOKENS, WIDTH, scale=1) for name in ("x", "y")}
    rows = NamedSharding(mesh, P(("data", "expert")))
    at_experts = NamedSharding(mesh, P("expert", "data"))

    def layer(params, x):
        odds = jax.nn.softmax(x @ params["gate"])
        chosen = jax.nn.one_hot(jnp.argmax(odds, axis=-1), EXPERTS)
        place = jnp.cumsum(chosen, axis=1) * chosen - 1
        to = jax.nn.one_hot(place.astype(jnp.int32), ROOM) * chosen[..., None]
        sent = jax.lax.with_sharding_constraint(jnp.einsum("gsec,gsd->egcd", to, x), at_experts)
        hidden = jax.nn.relu(jnp.einsum("egcd,edh->egch", sent, params["up"]))
        back = jnp.einsum("egch,ehd->egcd", hidden, params["down"])
        back = jax.lax.with_sharding_constraint(back, at_experts)
        return jnp.einsum("egcd,gsec,gse->gsd", back, to, odds)

    def loss_of(params, x, y):
        return jnp.mean((x + layer(params, x) - y) ** 2)

    @partial(jax.jit, donate_argnums=0, out_shardings=(layout, loop.divided(mesh, ())))
    def step(state, batch):
        params, opt_state = state
        loss, grads = jax.value_and_grad(loss_of)(params, batch["x"], batch["y"])
        updates, opt_state = optimizer.update(grads, opt_state)
        return (optax.apply_updates(params, updates), opt_state), loss

    return jax.device_put(state, layout), jax.device_put(batch, rows), step


if __name__ == "__main__":
    loop.main(build)
