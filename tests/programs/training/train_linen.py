"""Flax Linen: a TrainState that is donated and rebuilt each step."""

import time
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(256)(x))
        x = nn.relu(nn.Dense(256)(x))
        return nn.Dense(8)(x)


@partial(jax.jit, donate_argnums=0)
def train_step(state, batch):
    def loss_of(params):
        return jnp.mean((state.apply_fn({"params": params}, batch["image"]) - batch["label"]) ** 2)

    loss, grads = jax.value_and_grad(loss_of)(state.params)
    return state.apply_gradients(grads=grads), loss


def main():
    net = Net()
    state = TrainState.create(
        apply_fn=net.apply,
        params=net.init(jax.random.key(0), jnp.ones((1, 64)))["params"],
        tx=optax.adamw(1e-3),
    )
    dice = np.random.default_rng(1)
    while True:
        time.sleep(0.05)  # loading data
        batch = {
            "image": jnp.asarray(dice.normal(size=(32, 64)), jnp.float32),
            "label": jnp.asarray(dice.normal(size=(32, 8)), jnp.float32),
        }
        state, loss = train_step(state, batch)
        if not np.isfinite(float(loss)):
            raise SystemExit("it diverged")


if __name__ == "__main__":
    main()
