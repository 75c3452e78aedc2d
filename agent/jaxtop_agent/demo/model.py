"""A decoder-only transformer over bytes, sharded as in Megatron: heads, hidden units and vocabulary."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

if TYPE_CHECKING:
    from collections.abc import Callable

# On eight devices the state takes 200 MB, and a step about 300 ms on two cores. Tests set the
# variable for a small model with pauses, which leaves them most of the CPU.
VOCABULARY = 256
CONTEXT = 64
WIDTH, PAUSE = (64, 0.1) if os.environ.get("JAXTOP_DEMO_SIZE") == "small" else (416, 0.0)
LAYERS = 2
HEADS = 4
HIDDEN = 4 * WIDTH

# The layout by the layer of a weight. Adam's moments have the paths of their weights, so it applies to them
# too. Arrays of layers that are not named here (positions, counters) are whole on every device.
LAYOUT = {
    "embed": ("model", None),
    "qkv": (None, None, "model", None),
    "out": ("model", None, None),
    "up": (None, "model"),
    "down": ("model", None),
}


class TrainState(NamedTuple):
    """The state that a step reads and replaces."""

    params: Any
    opt_state: Any
    step: Any


class Model(NamedTuple):
    """The jitted functions, the sharding that they expect of a batch, and the layout of the state."""

    init: Callable[[], TrainState]
    train_step: Callable[[TrainState, Any], tuple[TrainState, Any]]
    eval_step: Callable[[Any, Any], Any]
    batch_sharding: Any
    layout: Any

    def take_over(self, state: TrainState) -> TrainState:
        """Return the state of another model in the layout of this one."""
        if jax.tree.map(lambda leaf: leaf.sharding, state) == self.layout:
            return state  # a launch in one process only would be another fault
        moved: TrainState = jax.jit(lambda state: state, out_shardings=self.layout)(state)
        return moved


def build(mesh: Any, seed: int, variant: str = "") -> Model:
    """Build the model on `mesh`, whose axes are called data and model, in one of `faults.VARIANTS`."""
    rate = 2.9e-3 if variant == "other_constant" else 3e-3
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(optax.warmup_constant_schedule(0.0, rate, warmup_steps=50), weight_decay=0.01),
    )

    def on_mesh(*axes: str | None) -> Any:
        return NamedSharding(mesh, P(*axes))

    def train_step(state: TrainState, tokens: Any) -> tuple[TrainState, Any]:
        # We compute a gradient for each part of the batch, then their mean, which halves the time of a step:
        # so the hosts exchange all gradients at its end, and not one after the other.
        parts = tokens.reshape(mesh.shape["data"], -1, tokens.shape[-1])
        on_each = jax.vmap(jax.value_and_grad(loss_of), in_axes=(None, 0), spmd_axis_name="data")
        loss, grads = jax.tree.map(lambda x: jnp.mean(x, axis=0), on_each(state.params, parts))
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        return TrainState(optax.apply_updates(state.params, updates), opt_state, state.step + 1), loss

    def eval_step(params: Any, tokens: Any) -> Any:
        return loss_of(params, tokens)

    def loss_of(params: Any, tokens: Any) -> Any:
        return _loss(params, tokens, lambda x: jax.lax.with_sharding_constraint(x, on_mesh()))

    def place(path: Any, _: Any) -> Any:
        keys = [entry.key for entry in path if hasattr(entry, "key")]
        return on_mesh(*LAYOUT.get(keys[-2], ())) if keys else on_mesh()

    def fresh() -> TrainState:
        # NumPy makes the numbers: to compile random numbers would take longer than to compile the whole step.
        params = _fresh_params(np.random.default_rng(seed))
        # Adam begins with zeros; to let it make them would put all of them on the first device.
        begun = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), jax.eval_shape(optimizer.init, params))
        return TrainState(params, begun, np.zeros((), np.int32))

    layout = jax.tree_util.tree_map_with_path(place, jax.eval_shape(fresh))
    if variant == "replicated_optimizer":
        layout = layout._replace(opt_state=jax.tree.map(lambda _: on_mesh(), layout.opt_state))
    return Model(
        init=lambda: jax.tree.map(_own_shards, fresh(), layout),
        # The layout is explicit: a state that came back with another layout would compile a second step, and
        # its memory could not be reused.
        train_step=jax.jit(
            train_step,
            donate_argnums=() if variant == "undonated" else 0,
            out_shardings=(layout, on_mesh()),
        ),
        eval_step=jax.jit(eval_step, out_shardings=on_mesh()),
        batch_sharding=on_mesh("data", None),
        layout=layout,
    )


def _own_shards(whole: Any, sharding: Any) -> Any:
    host = np.asarray(whole)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])


def _fresh_params(rng: np.random.Generator) -> Any:
    def weight(*shape: int, scale: float = 0.02) -> Any:
        return np.float32(scale) * rng.standard_normal(shape, np.float32)

    # Weights that add to the residual stream start smaller, the more layers add to it.
    residual = 0.02 / (2 * LAYERS) ** 0.5
    head = WIDTH // HEADS

    def block() -> Any:
        return {
            "attention": {
                "qkv": {"kernel": weight(WIDTH, 3, HEADS, head)},
                "out": {"kernel": weight(HEADS, head, WIDTH, scale=residual)},
            },
            "mlp": {
                "up": {"kernel": weight(WIDTH, HIDDEN)},
                "down": {"kernel": weight(HIDDEN, WIDTH, scale=residual)},
            },
        }

    return {
        "embed": {"embedding": weight(VOCABULARY, WIDTH)},
        "position": {"embedding": weight(CONTEXT, WIDTH)},
        **{f"blocks_{i}": block() for i in range(LAYERS)},
    }


def _loss(params: Any, tokens: Any, whole: Callable[[Any], Any]) -> Any:
    """Return the mean cross entropy, in nats per byte, of each byte given the bytes before it."""
    tokens = tokens.astype(jnp.int32)
    logits = _logits(params, tokens[:, :-1], whole)
    # A product instead of a lookup: each device then needs only its own part of the vocabulary.
    chosen = jnp.sum(logits * jax.nn.one_hot(tokens[:, 1:], VOCABULARY), axis=-1)
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


def _logits(params: Any, tokens: Any, whole: Callable[[Any], Any]) -> Any:
    """Return the logits.

    `whole` gathers the residual stream on every device of the model axis. It is split only inside a block.
    """
    embedding = params["embed"]["embedding"]
    positions = params["position"]["embedding"][: tokens.shape[1]]
    x = whole(jax.nn.one_hot(tokens, VOCABULARY) @ embedding + positions)
    for i in range(LAYERS):
        block = params[f"blocks_{i}"]
        x = whole(x + _attention(block["attention"], _norm(x)))
        x = whole(x + _mlp(block["mlp"], _norm(x)))
    return _norm(x) @ embedding.T


def _attention(layers: Any, x: Any) -> Any:
    q, k, v = jnp.einsum("btd,dshk->sbthk", x, layers["qkv"]["kernel"])
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return jnp.einsum("bthk,hkd->btd", mixed, layers["out"]["kernel"])


def _mlp(layers: Any, x: Any) -> Any:
    return jax.nn.gelu(x @ layers["up"]["kernel"]) @ layers["down"]["kernel"]


def _norm(x: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
