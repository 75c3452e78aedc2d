"""A training loop that forgets to let go: one activation a step stays in a list."""

import time

import jax
import jax.numpy as jnp


@jax.jit
def step(params, x):
    hidden = jnp.tanh(x @ params["w"])
    return {"w": params["w"] * 0.999}, hidden


def train():
    params = {"w": jnp.ones((128, 128))}
    history = []
    while True:
        x = jnp.ones((64, 128))
        params, activation = step(params, x)
        history.append(activation)
        time.sleep(0.05)


train()
