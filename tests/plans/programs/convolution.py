"""A convolution net on data × model: output channels are divided. Ten classes are not divisible by four."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tests.plans.programs import loop

CHANNELS = (3, *map(loop.width, (32, 64, 128)))
SIDE, ROWS, CLASSES = 32, 48, 10


def build(mesh):
    rng = np.random.default_rng(0)
    optimizer = optax.sgd(1e-2, momentum=0.9)
    params = {
        f"conv{i}": {
            "kernel": loop.weight(rng, 3, 3, n, m, scale=(9 * n) ** -0.5),
            "bias": np.zeros(m, np.float32),
        }
        for i, (n, m) in enumerate(pairwise(CHANNELS))
    }
    params["head"] = {"classes": loop.weight(rng, CHANNELS[-1], CLASSES)}
    state = {"params": params, "opt_state": optimizer.init(params)}
    rules = {"kernel": (None, None, None, "model"), "bias": ("model",), "classes": (None, "model")}
    layout = loop.by_key(mesh, state, rules)
    batch = {
        "images": loop.weight(rng, ROWS, SIDE, SIDE, CHANNELS[0], scale=1),
        "labels": rng.integers(0, CLASSES, ROWS, np.int32),
    }

    def loss_of(params, images, labels):
        x = images
        for i in range(len(CHANNELS) - 1):
            layer = params[f"conv{i}"]
            x = jax.lax.conv_general_dilated(
                x, layer["kernel"], (1 + (i > 0),) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x + layer["bias"])
        logits = jnp.mean(x, axis=(1, 2)) @ params["head"]["classes"]
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))

    @partial(jax.jit, donate_argnums=0, out_shardings=(layout, loop.divided(mesh, ())))
    def step(state, batch):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], batch["images"], batch["labels"])
        updates, opt_state = optimizer.update(grads, state["opt_state"])
        return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt_state}, loss

    rows = loop.by_key(mesh, batch, {"images": ("data",), "labels": ("data",)})
    return jax.device_put(state, layout), jax.device_put(batch, rows), step


if __name__ == "__main__":
    loop.main(build)
