"""Compiles programs whose operations are known by hand, and the same unrolled; then multiplies on one device.

All are kept until `stop` is in STEER. Each multiplies (ROWS, SIDE) by SIDE × SIDE; names say how often.
"""

import os
import time
from pathlib import Path

from jaxtop import agent

agent.start(name="operations")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

ROWS, SIDE, LAYERS = 32, 64, 12
steer = Path(os.environ["STEER"])
rows = jax.ShapeDtypeStruct((ROWS, SIDE), np.float32)
layers = jax.ShapeDtypeStruct((LAYERS, SIDE, SIDE), np.float32)
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
kept = []


def layer(x, w):
    return jnp.tanh(x @ w), None


def keep(name, function, *arguments):
    def named(*given):
        return function(*given)

    named.__name__ = name
    kept.append(jax.jit(named).lower(*arguments).compile())


def scanned(unroll, body=layer):
    return lambda x, ws: lax.scan(body, x, ws, unroll=unroll)[0].sum()


def nested(x, ws):
    def outer(x, ws):
        return lax.scan(layer, x, ws)[0], None

    return lax.scan(outer, x, ws.reshape(LAYERS // 4, 4, SIDE, SIDE))[0].sum()


def counted(unroll):
    return lambda x, ws: lax.fori_loop(0, LAYERS, lambda _, x: layer(x, ws[0])[0], x, unroll=unroll)


def chosen(x, ws):
    return lax.cond(x.sum() > 0, lambda x: x @ ws[0] @ ws[1], lambda x: x @ ws[2], x)


def open_ended(x, ws):
    return lax.while_loop(lambda x: x.sum() < 9, lambda x: x @ ws[0], x)


def solved(x, ws):
    return x @ jnp.linalg.cholesky(ws[0])


def called_back(x, ws):
    return jax.pure_callback(lambda x: x, rows, x) @ ws[0]


def large(x, ws):
    for i in range(6 * LAYERS):
        x = x + jnp.tanh(x @ ws[i % LAYERS])
    return (x**2).sum()


keep("scan_12", scanned(1), rows, layers)
keep("unrolled_12", scanned(LAYERS), rows, layers)
keep("nested_12", nested, rows, layers)
keep("fori_12", counted(1), rows, layers)
keep("unrolled_fori_12", counted(LAYERS), rows, layers)
keep("map_12", lambda x, ws: lax.map(lambda w: x @ w, ws), rows, layers)
keep("grad_36", jax.grad(scanned(1), (0, 1)), rows, layers)
keep("unrolled_grad_36", jax.grad(scanned(LAYERS), (0, 1)), rows, layers)
keep("remat_48", jax.grad(scanned(1, jax.checkpoint(layer)), (0, 1)), rows, layers)
keep("cond_1", chosen, rows, layers)
keep("while_1", open_ended, rows, layers)
keep("cholesky_1", solved, rows, layers)
keep("callback_1", called_back, rows, layers)
keep("large_216", jax.grad(large, (0, 1)), rows, layers)
cut = jax.ShapeDtypeStruct((4 * ROWS, SIDE), np.float32, sharding=NamedSharding(mesh, P("data")))
whole = jax.ShapeDtypeStruct((LAYERS, SIDE, SIDE), np.float32, sharding=NamedSharding(mesh, P()))
keep("sharded_12", scanned(1), cut, whole)


@jax.jit
def on_one(x):
    return x @ x


x = jax.device_put(jnp.eye(256), jax.devices()[1])
while not (steer / "stop").exists():
    x = on_one(x)
    x.block_until_ready()
    time.sleep(0.01)
