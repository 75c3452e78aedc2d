"""Holds the arrays of the table STEER/arrays.json and no others: COORDINATOR (`-`: none) COUNT INDEX."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from jaxtop import agent

coordinator, count, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
steer = Path(os.environ["STEER"])


def make(row: dict) -> jax.Array | None:
    """The array of this row; None where it is another process's."""
    value = np.ones(row["shape"], jnp.dtype(row["dtype"]))
    devices = [jax.devices()[position] for position in row["devices"]]
    if row["axes"]:
        mesh = Mesh(np.array(devices).reshape(list(row["axes"].values())), tuple(row["axes"]))
        spec = P(*(tuple(entry) if isinstance(entry, list) else entry for entry in row["spec"]))
        sharding = NamedSharding(mesh, spec)
        return jax.make_array_from_callback(value.shape, sharding, value.__getitem__, dtype=value.dtype)
    if devices[0].process_index != index:
        return None
    held = jax.device_put(value, SingleDeviceSharding(devices[0], memory_kind=row["memory_kind"]))
    return jax.random.wrap_key_data(held) if row["is_key"] else held


agent.start(name="arrays")
if coordinator != "-":
    jax.distributed.initialize(coordinator, count, index)
held = [make(row) for row in json.loads((steer / "arrays.json").read_text()) for _ in range(row["count"])]
deleted = jnp.zeros(12345)
deleted.delete()
(steer / f"ready-{index}").touch()
while True:
    time.sleep(1)
