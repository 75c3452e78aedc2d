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


def make_again():
    value = jnp.ones((32, 8))

    def step():
        nonlocal value
        value = advance(value)

    return step, lambda: value


step, look = make()
step_again, look_again = make_again()
agent.start(name="hidden")
agent.watch(weights=look if sys.argv[1] == "callable" else look())
agent.watch(again=(lambda: {"c": look_again()}) if sys.argv[1] == "callable" else {"c": look_again()})
while True:
    step()
    step_again()
    time.sleep(0.1)
