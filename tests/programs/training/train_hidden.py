"""A state where no variable of a running function leads to; given to jaxtop by name: `callable` or `tree`."""

import sys
import time

import jax
import jax.numpy as jnp

from jaxtop import agent


@jax.jit
def advance(state):
    return jax.tree.map(lambda leaf: leaf * 0.999, state)


def make():
    state = {"w": jnp.ones((96, 64)), "b": jnp.ones((64,))}

    def step():
        nonlocal state
        state = advance(state)

    return step, lambda: state


step, look = make()
agent.start(name="hidden")
agent.watch(weights=look if sys.argv[1] == "callable" else look())
while True:
    step()
    time.sleep(0.1)
