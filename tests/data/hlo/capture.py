"""Writes the texts of a few compiled programs, by the JAX that runs it: FOLDER (see README.md)."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

folder = Path(sys.argv[1])
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
if hasattr(jax, "shard_map"):
    shard_map = partial(jax.shard_map, check_vma=False)
else:
    from jax.experimental.shard_map import shard_map as experimental

    shard_map = partial(experimental, check_rep=False)


def keep(name, function, *arguments):
    compiled = function.lower(*arguments).compile().runtime_executable()
    text = compiled.hlo_modules()[0].to_string()
    (folder / f"{name}-jax-{jax.__version__}.hlo").write_text(text.replace(__file__, "capture.py"))


def mapped(a):
    b = lax.psum(a, "model")
    c = lax.pmean(a * 2, "data")
    d = lax.all_gather(a, "data", tiled=True).sum(0, keepdims=True)
    e = lax.ppermute(a, "data", [(k, (k + 1) % 4) for k in range(4)])
    f = lax.psum((a, a.sum()), ("data", "model"))[0]
    g = lax.psum_scatter(b, "data", tiled=True)
    h = lax.all_to_all(a, "model", 1, 0, tiled=True)
    s, _ = lax.scan(lambda c, _: (lax.psum(c, "data") / 4, None), a, None, length=3)
    w = lax.while_loop(lambda c: (lax.psum(c, "model") < 9).all(), lambda c: c + lax.pmax(c, "data"), a)
    q = lax.cond(a.sum() > 0, lambda x: lax.psum(x, "model"), lambda x: x, a)
    return b + c + d + e + f + g.sum() + h.sum() + s + w + q


def sharded(weights, batch):
    product = batch @ weights
    return jnp.tanh(product).sum(), lax.with_sharding_constraint(product, NamedSharding(mesh, P("model")))


def moved(weights, layers, batch):
    def layer(x, w):
        return jnp.tanh(x @ w), None

    return lax.scan(layer, batch @ weights, layers)[0]


def parallel(x):
    swapped = lax.ppermute(x, "batch", [(0, 1), (1, 0)])
    return x / lax.psum(x, "batch"), lax.all_gather(x, "batch"), swapped


def calling_back(x):
    jax.debug.print("{}", x.sum())
    return x + 1


def cut(shape, spec):
    return jax.ShapeDtypeStruct(shape, np.float32, sharding=NamedSharding(mesh, spec))


whole = P("data", "model")
keep("mapped", jax.jit(shard_map(mapped, mesh=mesh, in_specs=whole, out_specs=whole)), cut((64, 64), whole))
keep("sharded", jax.jit(sharded), cut((32, 16), P("model", None)), cut((8, 32), P("data", "model")))
rows = P("data", None)
keep(
    "moved",
    jax.jit(moved, out_shardings=NamedSharding(mesh, rows)),
    *(cut((64, 64), rows), cut((3, 64, 64), P(None, *rows)), cut((64, 64), rows)),
)
keep("pmap", jax.pmap(parallel, axis_name="batch"), jax.ShapeDtypeStruct((8, 16), np.float32))
keep("callback", jax.jit(calling_back), jax.ShapeDtypeStruct((4,), np.float32))


def reshaped(x):
    mixed = jnp.sin(x).reshape(-1)
    return lax.with_sharding_constraint(mixed, NamedSharding(mesh, P("data"))) + 1


keep("reshaped", jax.jit(reshaped), cut((64, 64), P(None, "data")))
