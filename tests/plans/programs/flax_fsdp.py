"""A Flax model with dropout and Optax on data × fsdp. Its random key lies on the first device alone."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.training.train_state import TrainState
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.plans.programs import loop

VOCABULARY, CONTEXT, ROWS = 96, 24, 24
WIDTH, HIDDEN, LAYERS = loop.width(192), loop.width(768), 3


class Mixer(nn.Module):
    rows: Any

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(VOCABULARY, WIDTH)(tokens)
        for _ in range(LAYERS):
            x = jax.lax.with_sharding_constraint(x, self.rows)
            mixed = nn.Dense(CONTEXT)(jnp.swapaxes(nn.LayerNorm()(x), 1, 2))
            x = x + jnp.swapaxes(nn.gelu(mixed), 1, 2)
            wide = nn.Dropout(0.1, deterministic=False)(nn.gelu(nn.Dense(HIDDEN)(nn.LayerNorm()(x))))
            x = x + nn.Dense(WIDTH)(wide)
        return nn.Dense(VOCABULARY)(nn.LayerNorm()(x))


def build(mesh):
    rng = np.random.default_rng(0)
    rows = NamedSharding(mesh, P(("data", "fsdp")))
    model = Mixer(rows)
    tokens = rng.integers(0, VOCABULARY, (ROWS, CONTEXT + 1), np.int32)
    key = jax.random.PRNGKey(0)
    shapes = jax.eval_shape(model.init, {"params": key, "dropout": key}, tokens[:, :-1])
    params = jax.tree.map(lambda leaf: loop.weight(rng, *leaf.shape), shapes["params"])
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    state = TrainState.create(apply_fn=model.apply, params=params, tx=optimizer).replace(
        step=np.zeros((), np.int32)
    )
    layout = loop.by_largest(mesh, state, "fsdp")

    @partial(jax.jit, donate_argnums=0, out_shardings=(layout, loop.divided(mesh, ())))
    def step(state, batch):
        def loss_of(params):
            rngs = {"dropout": jax.random.fold_in(batch["key"], state.step)}
            logits = state.apply_fn({"params": params}, batch["tokens"][:, :-1], rngs=rngs)
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["tokens"][:, 1:])
            return jnp.mean(losses)

        loss, grads = jax.value_and_grad(loss_of)(state.params)
        return state.apply_gradients(grads=grads), loss

    return jax.device_put(state, layout), {"tokens": jax.device_put(tokens, rows), "key": key}, step


if __name__ == "__main__":
    loop.main(build)
