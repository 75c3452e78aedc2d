"""A transformer with a scan over its layers, for the programs that lay it out."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.plans.programs import loop

VOCABULARY, CONTEXT, ROWS = 256, 64, 8
WIDTH, HEADS, HIDDEN, LAYERS = loop.width(128), 8, loop.width(512), 4


class State(NamedTuple):
    params: Any
    opt_state: Any
    step: Any


def build(mesh, rules, batch_axes, *, remat=False):
    """Build it on a mesh; `rules` has the axes of each weight, `batch_axes` divide the batch."""
    rng = np.random.default_rng(0)
    optimizer = optax.adamw(1e-3)
    params = _fresh(rng)
    state = State(params, optimizer.init(params), np.zeros((), np.int32))
    layout = loop.by_key(mesh, state, rules)
    tokens = rng.integers(0, VOCABULARY, (ROWS, CONTEXT + 1), np.int32)
    stream = NamedSharding(mesh, P(batch_axes))

    def block(x, weights):
        x = x + _attention(weights, _norm(x))
        x = x + jax.nn.gelu(_norm(x) @ weights["up"]) @ weights["down"]
        return jax.lax.with_sharding_constraint(x, stream), None

    def loss_of(params, tokens):
        x = jax.nn.one_hot(tokens[:, :-1], VOCABULARY) @ params["embed"] + params["position"]
        x = jax.lax.with_sharding_constraint(x, stream)
        x, _ = jax.lax.scan(jax.checkpoint(block) if remat else block, x, params["blocks"])
        logits = _norm(x) @ params["embed"].T
        chosen = jnp.sum(logits * jax.nn.one_hot(tokens[:, 1:], VOCABULARY), axis=-1)
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)

    @partial(jax.jit, donate_argnums=0, out_shardings=(layout, loop.divided(mesh, ())))
    def step(state, tokens):
        loss, grads = jax.value_and_grad(loss_of)(state.params, tokens)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        return State(optax.apply_updates(state.params, updates), opt_state, state.step + 1), loss

    return jax.device_put(state, layout), jax.device_put(tokens, stream), step


def _fresh(rng):
    return {
        "embed": loop.weight(rng, VOCABULARY, WIDTH),
        "position": loop.weight(rng, CONTEXT, WIDTH),
        "blocks": {
            "qkv": loop.weight(rng, LAYERS, WIDTH, 3, HEADS, WIDTH // HEADS),
            "out": loop.weight(rng, LAYERS, HEADS, WIDTH // HEADS, WIDTH),
            "up": loop.weight(rng, LAYERS, WIDTH, HIDDEN),
            "down": loop.weight(rng, LAYERS, HIDDEN, WIDTH),
        },
    }


def _attention(weights, x):
    q, k, v = jnp.einsum("btd,dshk->sbthk", x, weights["qkv"])
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return jnp.einsum("bthk,hkd->btd", mixed, weights["out"])


def _norm(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
