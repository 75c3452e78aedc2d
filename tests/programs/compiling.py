"""Compiles functions of JAX and of its own for many shapes; prints what is noted of them as JSON."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxtop_agent.core.board import CompilesState
from jaxtop_agent.hooks.compiles import Compiles
from jaxtop_agent.hooks.launches import Launches

board = SimpleNamespace(compiles=CompilesState(), send=lambda _: None)
compiles = Compiles()
compiles.attach(board)
compiles.install()
launches = Launches()
launches.install()


@jax.jit
def subtract(x):
    """Called like a function of JAX."""
    return x - 1


@partial(jax.jit, static_argnums=1)
def init_layer(key, size):
    return {"w": jax.random.normal(key, (size, size)), "b": jnp.zeros(size)}


mesh = Mesh(np.array(jax.devices()), ("data",))
for size in (4, 8, 12, 16, 20):
    x = np.ones(size, np.float32)
    subtract(x)
    init_layer(jax.random.key(0), size)
    jnp.multiply(x, x)
    jnp.bitwise_and(np.arange(size), 1)
    jax.random.truncated_normal(jax.random.key(0), -1, 1, (size,))
    rows = jax.device_put(x, NamedSharding(mesh, P("data")))
    jax.device_put(rows, NamedSharding(mesh, P()))
    jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, P()))(rows)


def ahead(x):
    return x * 2


compiled = jax.jit(ahead).lower(np.ones(4, np.float32)).compile()
for _ in range(3):
    compiled(np.ones(4, np.float32))


@jax.jit
def graded(x):
    return (x * 3).sum()


for _ in range(3):
    jax.grad(graded)(np.ones(4, np.float32))

print(
    json.dumps(
        {
            "by the script": sorted(
                name for name, each in board.compiles.compiled.items() if each.is_the_scripts
            ),
            "initialize": sorted(name for name, each in board.compiles.compiled.items() if each.initializes),
            "remembered": {
                name: sum(one.times for one in each.ended)
                for name, each in board.compiles.compiled.items()
                if each.ended
            },
            "compiled": {name: each.count for name, each in board.compiles.compiled.items()},
            "launched": launches.totals(),
        }
    )
)
