"""Equinox: a recurrent model, whose batches come from a generator."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from until import steps, told


class Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell
    head: eqx.nn.Linear

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(8, 256, key=one)
        self.head = eqx.nn.Linear(256, 1, key=two)

    def __call__(self, sequence):
        last, _ = jax.lax.scan(lambda hidden, x: (self.cell(x, hidden), None), jnp.zeros(256), sequence)
        return jax.nn.sigmoid(self.head(last))


@eqx.filter_value_and_grad
def compute_loss(model, x, y):
    predicted = jax.vmap(model)(x)[:, 0]
    return -jnp.mean(y * jnp.log(predicted) + (1 - y) * jnp.log(1 - predicted))


def dataloader(batch_size):
    random = np.random.default_rng(0)
    while True:
        x = random.normal(size=(batch_size, 16, 8)).astype(np.float32)
        yield x, (x.sum((1, 2)) > 0).astype(np.float32)


def main():
    model = Recurrent(jax.random.key(0))
    optim = optax.adam(3e-3)
    opt_state = optim.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def make_step(model, opt_state, x, y):
        loss, grads = compute_loss(model, x, y)
        updates, opt_state = optim.update(grads, opt_state, model)
        return loss, eqx.apply_updates(model, updates), opt_state

    for step, (x, y) in zip(steps(), dataloader(64), strict=False):
        loss, model, opt_state = make_step(model, opt_state, x, y)
        told(step, loss.item())


main()
