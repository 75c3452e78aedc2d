"""A second program for faults: data-parallel by hand, in one shard_map, without libraries.

Its arguments are those of `jaxtop_agent.demo.train`.
"""

from __future__ import annotations

import sys

from jaxtop import agent
from jaxtop_agent.demo import train as demo
from jaxtop_agent.demo.faults.planting import Planting

WIDTH, HIDDEN, ROWS = 256, 6144, 32


def build(mesh, variant="", compute=lambda x: x):
    """Return the jitted step, and the shardings of weights and momentum.

    `compute` is applied to the batch of each device first.
    """
    import jax  # here and below: the demo's main sets the environment before it is imported
    import jax.numpy as jnp
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    split = P() if variant == "replicated_optimizer" else P("data")
    rate = 0.009 if variant == "other_constant" else 0.01

    def loss_of(params, x):
        return jnp.mean((jnp.tanh(x @ params["up"]) @ params["down"] - jnp.sin(x)) ** 2)

    def renew(weight, momentum, slope):
        if split == P():
            momentum = 0.9 * momentum + jax.lax.pmean(slope, "data")
            return weight - rate * momentum, momentum
        mean = jax.lax.psum_scatter(slope, "data", tiled=True) / mesh.size
        momentum = 0.9 * momentum + mean
        return weight - rate * jax.lax.all_gather(momentum, "data", tiled=True), momentum

    def local_step(params, momentum, x):
        loss, slopes = jax.value_and_grad(loss_of)(params, compute(x))
        new = {name: renew(params[name], momentum[name], slopes[name]) for name in params}
        params, momentum = ({name: pair[i] for name, pair in new.items()} for i in (0, 1))
        return params, momentum, jax.lax.pmean(loss, "data")

    mapped = jax.shard_map(
        local_step,
        mesh=mesh,
        in_specs=(P(), split, P("data")),
        out_specs=(P(), split, P()),
        check_vma=False,
    )

    def train_step(params, momentum, x):
        return mapped(params, momentum, x)

    donated = () if variant == "undonated" else (0, 1)
    return jax.jit(train_step, donate_argnums=donated), NamedSharding(mesh, P()), NamedSharding(mesh, split)


def train(duration, steps, seed, turns=(), *, hidden=HIDDEN, compute=lambda x: x):
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("data",))
    dice = np.random.default_rng(seed)
    step, whole, split = build(mesh, compute=compute)

    def put(value, sharding):
        return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

    shapes = {"up": (WIDTH, hidden), "down": (hidden, WIDTH)}
    params = {name: put(dice.normal(size=s).astype(np.float32) / 16, whole) for name, s in shapes.items()}
    momentum = {name: put(np.zeros(s, np.float32), split) for name, s in shapes.items()}

    def rebuild(variant, state):
        nonlocal step
        step, _, now_split = build(mesh, variant, compute)
        if now_split != split:
            state = state[0], jax.jit(lambda m: m, out_shardings=dict.fromkeys(shapes, now_split))(state[1])
        return state

    agreement = demo.Agreement(duration, turns)
    report = demo.LossReport(is_printed=jax.process_index() == 0)
    report.held_out = 0
    report.begin(params, mesh)
    planting = Planting((jax.process_index(), jax.process_count(), mesh), rebuild, report.show)
    kept = {}
    before = None
    i = 0
    while steps is None or i < steps:
        if i == agreement.until:
            report.progress(i)
            if not agreement.go_on(i):
                break
            if agreement.begins is not None:
                params, momentum = planting.begin(agreement.begins, i, (params, momentum), kept)
        planting.load_batch(i)
        rows = mesh.size * (ROWS - planting.fault.shorter(i))
        x = put(dice.normal(size=(rows, WIDTH)).astype(np.float32), NamedSharding(mesh, P("data")))
        planting.fault.before_launch(i)
        params, momentum, loss = step(params, momentum, x)
        agent.step(i, loss=loss)
        planting.fault.after_launch(i, loss, kept)
        report.loss = loss
        if before is not None:
            before.block_until_ready()
        before = loss
        i += 1
    report.end(i)


if __name__ == "__main__":
    sys.exit(demo.main(program=train))
