"""Flax NNX: a model and an optimizer that change in place, on a mesh, with metrics and an evaluation."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from until import steps, told


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(64, 512, rngs=rngs)
        self.norm = nnx.LayerNorm(512, rngs=rngs)
        self.second = nnx.Linear(512, 512, rngs=rngs)
        self.last = nnx.Linear(512, 10, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.relu(self.second(nnx.relu(self.norm(self.first(x))))))


def loss_fn(model, batch):
    logits = model(batch["image"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean(), logits


@nnx.jit
def train_step(model, optimizer, metrics, batch):
    (loss, logits), grads = nnx.value_and_grad(loss_fn, has_aux=True)(model, batch)
    metrics.update(loss=loss, logits=logits, labels=batch["label"])
    optimizer.update(model, grads)


@nnx.jit
def eval_step(model, metrics, batch):
    loss, logits = loss_fn(model, batch)
    metrics.update(loss=loss, logits=logits, labels=batch["label"])


def main():
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
    metrics = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))
    mesh = jax.make_mesh((jax.device_count(),), ("data",), (AxisType.Auto,))
    spread, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    for each in (model, optimizer, metrics):
        nnx.update(each, jax.device_put(nnx.state(each), whole))
    random = np.random.default_rng(0)

    def make_batch():
        image = random.normal(size=(256, 64)).astype(np.float32)
        return jax.device_put({"image": image, "label": (image[:, 0] > 0).astype(np.int32)}, spread)

    for step in steps():
        train_step(model, optimizer, metrics, make_batch())
        loss = metrics.compute()["loss"]
        told(step, loss)
        if step % 100 == 99:
            for _ in range(5):
                eval_step(model, metrics, make_batch())
            metrics.reset()
            nnx.update(metrics, jax.device_put(nnx.state(metrics), whole))
    assert jnp.isfinite(loss)


main()
