"""Haiku: dicts of dicts, at the top level of the script."""

import time

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax


def forward(x):
    return hk.nets.MLP([256, 256, 8])(x)


net = hk.without_apply_rng(hk.transform(forward))
tx = optax.adam(1e-3)


@jax.jit
def update(params, opt_state, batch):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((net.apply(p, batch[0]) - batch[1]) ** 2))(params)
    updates, opt_state = tx.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


params = net.init(jax.random.key(0), jnp.ones((1, 64)))
opt_state = tx.init(params)
dice = np.random.default_rng(1)
while True:
    time.sleep(0.05)  # loading data
    batch = tuple(jnp.asarray(dice.normal(size=(32, n)), jnp.float32) for n in (64, 8))
    params, opt_state, loss = update(params, opt_state, batch)
    if not np.isfinite(float(loss)):
        raise SystemExit("it diverged")
