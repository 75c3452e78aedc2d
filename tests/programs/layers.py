"""Runs small programs of several libraries in turn, until `stop` is in STEER."""

import os
from functools import partial
from pathlib import Path

from jaxtop import agent

agent.start(name="layers")

import equinox as eqx  # noqa: E402
import flax.linen as nn  # noqa: E402
import haiku as hk  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

SIDE = 96
steer = Path(os.environ["STEER"])
x, key = jnp.ones((64, SIDE)), jax.random.key(0)
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        for _ in range(3):
            x = nn.LayerNorm()(nn.gelu(nn.Dense(SIDE)(x)))
        return nn.Conv(8, (3,))(x[None])


net, optimizer = Net(), optax.adamw(1e-3)
parameters = net.init(key, x)
state = parameters, optimizer.init(parameters)


@jax.jit
def flax_step(state, x):
    parameters, moments = state
    grads = jax.grad(lambda p: jnp.square(net.apply(p, x)).mean())(parameters)
    updates, moments = optimizer.update(grads, moments, parameters)
    return optax.apply_updates(parameters, updates), moments


mlp = eqx.nn.MLP(SIDE, SIDE, SIDE, 2, key=key)
arrays, rest = eqx.partition(mlp, eqx.is_array)


@jax.jit
def equinox_grads(arrays, x):
    return jax.grad(lambda a: jnp.square(jax.vmap(eqx.combine(a, rest))(x)).mean())(arrays)


attention = hk.without_apply_rng(
    hk.transform(lambda x: hk.MultiHeadAttention(4, 16, w_init_scale=1.0)(x, x, x))
)
heads = attention.init(key, x)


@jax.jit
def haiku_attention(heads, x):
    return attention.apply(heads, x)


@jax.jit
def scanned(x, w):
    return lax.scan(lambda c, _: (jnp.tanh(c @ w), c.sum()), x, None, length=9)


@jax.jit
def until_small(x, w):
    return lax.while_loop(lambda c: c.sum() > 1e-6, lambda c: 0.1 * c @ w / SIDE, x)


@jax.jit
def one_of_two(x, w):
    return lax.cond(x.sum() > 0, lambda: x @ w @ w, lambda: x)


@jax.jit
def solved(w):
    q, r = jnp.linalg.qr(w + jnp.eye(SIDE))
    return jnp.linalg.cholesky(r @ r.T + jnp.eye(SIDE)), q


@jax.jit
def ordered(x):
    return jnp.sort(x.ravel())[jnp.argsort(x[0])], jnp.zeros(SIDE).at[jnp.arange(9) * 3].add(2.0)


@partial(jax.jit, out_shardings=NamedSharding(mesh, P()))
def spread(x, w):
    return (x @ w).sum(0)


@jax.jit
def noise(key):
    return jax.random.normal(key, (64, SIDE)), jnp.fft.fft(jnp.ones(256))


w = jnp.ones((SIDE, SIDE))
rows = jax.device_put(x, NamedSharding(mesh, P("data")))
everywhere = jax.device_put(w, NamedSharding(mesh, P()))
while not (steer / "stop").exists():
    state = flax_step(state, x)
    done = [
        equinox_grads(arrays, x),
        haiku_attention(heads, x),
        scanned(x, w),
        until_small(x, w),
        one_of_two(x, w),
        solved(w),
        ordered(x),
        spread(rows, everywhere),
        noise(key),
    ]
    jax.block_until_ready((state, done))
