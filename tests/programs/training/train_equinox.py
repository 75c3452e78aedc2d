"""Equinox: a module that is data, and an Optax state of its shape."""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

optim = optax.sgd(1e-2, momentum=0.9)


@eqx.filter_jit
def make_step(model, opt_state, x, y):
    loss, grads = eqx.filter_value_and_grad(lambda model: jnp.mean((jax.vmap(model)(x) - y) ** 2))(model)
    updates, opt_state = optim.update(grads, opt_state)
    return eqx.apply_updates(model, updates), opt_state, loss


class Trainer:
    def __init__(self):
        self.model = eqx.nn.MLP(64, 8, 256, depth=2, key=jax.random.key(0))
        self.opt_state = optim.init(eqx.filter(self.model, eqx.is_array))

    def fit(self):
        dice = np.random.default_rng(1)
        while True:
            time.sleep(0.05)  # loading data
            x = jnp.asarray(dice.normal(size=(32, 64)), jnp.float32)
            y = jnp.asarray(dice.normal(size=(32, 8)), jnp.float32)
            self.model, self.opt_state, loss = make_step(self.model, self.opt_state, x, y)
            if not np.isfinite(float(loss)):
                raise SystemExit("it diverged")


if __name__ == "__main__":
    Trainer().fit()
