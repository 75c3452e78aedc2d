"""What each program does besides its step: it makes its mesh, trains until SIGTERM, and prints the truth."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from statistics import mean, quantiles

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxtop import agent

# Given by the bench to make models wider: runs of other sizes than those that the formulas were tried on.
WIDER = "--wider"
# Given where nobody asks how long a step takes: pauses leave the CPU to others.
PAUSED = "--paused"
PAUSE_S = 0.2
# The first steps compile, and meet cold caches.
SKIPPED_STEPS = 5
BLOCK_S = 0.5


def main(build):
    """Train what `build(mesh)` returns: the state, the batch, and the step, which returns state and loss."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mesh", required=True, metavar="AXES", help="mesh, such as data=4,model=2")
    parser.add_argument(WIDER, action="store_true", help="make the model half as wide again")
    parser.add_argument(PAUSED, action="store_true", help="pause between steps")
    axes = dict(each.split("=") for each in parser.parse_args().mesh.split(","))
    sizes = [int(size) for size in axes.values()]
    mesh = Mesh(np.array(jax.devices()[: np.prod(sizes)]).reshape(sizes), tuple(axes))
    stops = []
    signal.signal(signal.SIGTERM, lambda *_: stops.append(True))
    agent.start(name="plan")
    train(*build(mesh), stops)


def width(number):
    """Return the width of a part of a model, as the words of the program ask."""
    return 3 * number // 2 if WIDER in sys.argv else number


def train(state, batch, step, stops):
    durations = []
    while not (stops and durations):
        began = time.perf_counter()
        state, loss = step(state, batch)
        loss.block_until_ready()
        durations.append(time.perf_counter() - began)
        time.sleep(PAUSE_S if PAUSED in sys.argv else 0)
    named = (state, batch, loss)
    truth = {
        "state_bytes": max(bytes_by_device(named).values()),
        "memory": memory(step, state, batch),
        "unused_bytes": max(bytes_by_device(loss).values()),
        "step": step_time(durations[SKIPPED_STEPS:]),
        "loss": float(loss),
        "load": os.getloadavg()[0],
        "cpu_s": time.process_time(),
    }
    print(json.dumps(truth), file=sys.__stdout__, flush=True)


def bytes_by_device(tree):
    """Return what each device holds of these arrays."""
    found = Counter()
    for leaf in jax.tree.leaves(tree):
        for shard in leaf.addressable_shards:
            found[shard.device.id] += shard.data.nbytes
    return found


def memory(step, state, batch):
    """Return what the compiler says of the step, for one device."""
    stats = step.lower(state, batch).compile().memory_analysis()
    names = ("argument", "output", "temp", "alias")
    return {name: getattr(stats, f"{name}_size_in_bytes") for name in names}


def step_time(durations):
    """Return the median over blocks of half a second, with quartiles, in milliseconds."""
    blocks, block = [], []
    for each in durations:
        block.append(each)
        if sum(block) >= BLOCK_S:
            blocks.append(1000 * mean(block))
            block = []
    low, middle, high = quantiles(blocks, n=4, method="inclusive") if len(blocks) > 1 else [None] * 3
    return {"ms": middle, "low": low, "high": high, "blocks": len(blocks), "steps": len(durations)}


def divided(mesh, shape, *axes):
    """Divide each dimension by these axes where they divide it, else replicate it."""

    def size(names):
        return int(np.prod([mesh.shape[name] for name in ([names] if isinstance(names, str) else names)]))

    parts = (
        names if names and shape[i] % size(names) == 0 else None for i, names in enumerate(axes[: len(shape)])
    )
    return NamedSharding(mesh, P(*parts))


def by_key(mesh, tree, rules):
    """Lay out a tree: `rules` has the axes of each array by its last key; others are whole everywhere."""

    def place(path, leaf):
        keys = [entry.key for entry in path if hasattr(entry, "key")]
        return divided(mesh, leaf.shape, *(rules.get(keys[-1], ()) if keys else ()))

    return jax.tree_util.tree_map_with_path(place, tree)


def by_largest(mesh, tree, axis):
    """Lay out a tree: the axis divides the largest dimension of each array that it can."""

    def place(leaf):
        fitting = [i for i, size in enumerate(leaf.shape) if size % mesh.shape[axis] == 0]
        chosen = max(fitting, key=lambda i: leaf.shape[i], default=None)
        return divided(mesh, leaf.shape, *(axis if i == chosen else None for i in range(len(leaf.shape))))

    return jax.tree.map(place, tree)


def weight(rng, *shape, scale=0.02):
    return np.float32(scale) * rng.standard_normal(shape, np.float32)
