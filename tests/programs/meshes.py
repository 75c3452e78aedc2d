"""Train steps on several meshes: what JAX says of each there, and what their rewritten text gives.

Prints a JSON line for each: its name and mesh, JAX's figures, those of the rewritten text, what was said.
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxtop import wire
from jaxtop.features.planning.messages import NamedArray, WantedCandidate
from jaxtop_agent.planning import building
from jaxtop_agent.programs import fitting, hlo

TODAY = (("data", 4), ("model", 2))
OPT = optax.adam(1e-3)
SHAPES = {"w": (4, 32, 64), "v": (4, 64, 32), "b": (32,)}
FULLY = {"w": P(None, "data", "model"), "v": P(None, "model", "data"), "b": P()}
TENSOR = {"w": P(None, None, "model"), "v": P(None, "model"), "b": P()}
OVER_FSDP = {"w": P(None, "fsdp", "model"), "v": P(None, "model", "fsdp"), "b": P()}


class State(NamedTuple):
    params: Any
    opt_state: Any


def mesh_of(axes):
    sizes = [size for _, size in axes]
    return Mesh(np.array(jax.devices()[: np.prod(sizes)]).reshape(sizes), [name for name, _ in axes])


def layered(axes, specs, moments):
    """A scan over layers with an Adam state that may be sharded otherwise; the state is donated."""
    mesh = mesh_of(axes)

    def place(value, spec):
        return jax.device_put(value, NamedSharding(mesh, spec))

    params = {name: place(np.ones(shape, np.float32), specs[name]) for name, shape in SHAPES.items()}
    adam, rest = OPT.init(params)
    adam = adam._replace(
        count=place(adam.count, P()),
        mu={name: place(value, moments[name]) for name, value in adam.mu.items()},
        nu={name: place(value, moments[name]) for name, value in adam.nu.items()},
    )
    state = State(params, (adam, rest))
    batch = {"x": place(np.ones((20, 32), np.float32), P("data"))}

    def loss(params, batch):
        def layer(h, weights):
            w, v = weights
            h = jax.lax.with_sharding_constraint(jnp.tanh(h @ w), NamedSharding(mesh, P("data", "model")))
            return h @ v + params["b"], None

        return (jax.lax.scan(layer, batch["x"], (params["w"], params["v"]))[0] ** 2).mean()

    def train_step(state, batch):
        value, gradients = jax.value_and_grad(loss)(state.params, batch)
        updates, moments = OPT.update(gradients, state.opt_state, state.params)
        return State(optax.apply_updates(state.params, updates), moments), {"loss": value}

    placed = jax.tree.map(lambda x: x.sharding, state)
    return jax.jit(train_step, donate_argnums=0, out_shardings=(placed, None)).lower(state, batch)


def flax_step(axes):
    """A train state of Flax whose results the compiler places; it is donated to them."""
    mesh = mesh_of(axes)
    params = {
        "kernel": jax.device_put(np.ones((32, 64), np.float32), NamedSharding(mesh, P("data", "model"))),
        "bias": jax.device_put(np.ones(64, np.float32), NamedSharding(mesh, P("model"))),
    }
    state = TrainState.create(
        apply_fn=lambda p, x: jnp.tanh(x @ p["kernel"] + p["bias"]), params=params, tx=OPT
    )
    batch = jax.device_put(np.ones((16, 32), np.float32), NamedSharding(mesh, P(("data", "model"))))

    def train_step(state, x):
        jax.debug.print("step {}", state.step)
        return state.apply_gradients(
            grads=jax.grad(lambda p: (state.apply_fn(p, x) ** 2).mean())(state.params)
        )

    return jax.jit(train_step, donate_argnums=0).lower(state, batch)


def manual(axes):
    """A function whose local shapes are written in its text."""
    mesh = mesh_of(axes)
    x = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("data")))
    summed = jax.shard_map(lambda x: jax.lax.psum(x, "data"), mesh=mesh, in_specs=P("data"), out_specs=P())
    return jax.jit(summed).lower(x)


def unnamed(axes):
    """A function of an array that names no axis of size 1, as the results of a first step."""
    x = jax.device_put(np.ones((16, 8), np.float32), NamedSharding(mesh_of(axes), P("data")))
    return jax.jit(lambda x: (x * x).sum()).lower(x)


def text(lowered):
    return lowered.as_text(debug_info=True).encode()


def dumped(lowered, folder):
    """The text that the setting of JAX writes."""
    jax.config.update("jax_dump_ir_to", str(folder))
    lowered.compile()
    jax.config.update("jax_dump_ir_to", "")
    (file,) = folder.glob("*_compile.mlir")
    return file.read_bytes()


def product(axes):
    """A small function, as JAX gives it to the compiler and as `jax.export` serialises it in a FlatBuffer."""
    x = jax.device_put(np.ones((16, 8), np.float32), NamedSharding(mesh_of(axes), P("data", "model")))
    function = jax.jit(lambda x: (x @ x.T).sum())
    module = jax.export.export(function)(x).mlir_module_serialized
    return function.lower(x), b"more" + len(module).to_bytes(4, "little") + module + b"more"


def figures(compiled):
    """JAX's own figures of a program, and its collectives."""
    memory = compiled.memory_analysis()
    names = ("argument", "output", "temp", "alias")
    blank = wire.Inventory(0, "", None, devices=8)
    return [
        [getattr(memory, f"{name}_size_in_bytes") for name in names],
        collectives(fitting.fitted(blank, hlo.read(compiled.as_text()))),
    ]


def collectives(inventory):
    return [
        [each.kind, each.shape, each.bytes, each.times, repr(inventory.groups[each.groups])]
        for each in inventory.collectives
    ]


def compare(name, content, axes, *, truth=None, arrays=(), today=TODAY):
    made = building.build(content, 0, WantedCandidate(axes, arrays), today, jax.devices())
    mine = [
        [made.argument_bytes, made.output_bytes, made.temp_bytes, made.alias_bytes],
        collectives(made.inventory) if made.inventory else [],
    ]
    said = [*made.notes, *made.unnamed, *([made.why_not] if made.why_not else [])]
    print(json.dumps([name, dict(axes), truth and figures(truth.compile()), mine, said]), flush=True)


def moments_over(specs):
    """The arrays of a state, of which only the moments are divided otherwise than today."""
    return tuple(
        NamedArray(
            f"train.state.{tree}['{name}']", SHAPES[name], "float32", parts(TENSOR[name]), parts(then[name])
        )
        for tree, then in (("params", TENSOR), ("opt_state[0].mu", specs), ("opt_state[0].nu", specs))
        for name in SHAPES
    )


def parts(spec):
    return tuple(() if entry is None else (entry,) for entry in spec)


def main(folder):
    wide, turned = (("data", 2), ("model", 4)), (("model", 1), ("data", 8))
    three = (("data", 2), ("fsdp", 2), ("model", 2))
    layers = text(layered(TODAY, FULLY, FULLY))
    compare("layers", layers, wide, truth=layered(wide, FULLY, FULLY))
    compare("flax", text(flax_step(TODAY)), turned, truth=flax_step(turned))
    moments = layered(three, TENSOR, OVER_FSDP)
    compare(
        "moments", text(layered(TODAY, TENSOR, TENSOR)), three, truth=moments, arrays=moments_over(OVER_FSDP)
    )
    lowered, exported = product(TODAY)
    compare("dumped", dumped(lowered, folder), wide, truth=product(wide)[0])
    compare("exported", exported, wide, truth=product(wide)[0])
    narrow = (("data", 8), ("model", 1))
    compare("narrow", text(flax_step(narrow)), wide, truth=flax_step(wide), today=narrow)
    compare("lost", text(unnamed(narrow)), wide, today=narrow)
    compare("uneven", layers, (("data", 8), ("model", 1)))
    compare("manual", text(manual(TODAY)), wide)
    compare("another mesh", layers, wide, today=(("x", 8),))
    compare("no text", b"hello", wide)


main(Path(sys.argv[1]))
