"""Holds arrays of every kind of sharding, and writes what JAX says of each into STEER/shardings.json."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxtop import agent

agent.start(name="shardings")
devices = np.array(jax.devices())
cube = Mesh(devices.reshape(2, 2, 2), ("a", "b", "c"))
turned = Mesh(devices[::-1].reshape(4, 2), ("x", "y"))


def put(shape, mesh, *spec, dtype=np.float32):
    return jax.device_put(np.ones(shape, dtype), NamedSharding(mesh, P(*spec)))


def gspmd():
    """The compiler's own kind of sharding, where this JAX still has it."""
    from jax._src.lib import xla_client
    from jax._src.sharding_impls import GSPMDSharding

    tiles = xla_client.OpSharding()
    tiles.type = xla_client.OpSharding.Type.OTHER
    tiles.tile_assignment_dimensions = [4, 1, 2]
    tiles.tile_assignment_devices = [0, 2, 4, 6, 1, 3, 5, 7]
    tiles.replicate_on_last_tile_dim = True
    return jax.device_put(np.ones((8, 6), np.float32), GSPMDSharding(tuple(devices), tiles))


def unreduced():
    """Partial sums on each device, where this JAX can hold them."""
    from jax.sharding import AxisType

    mesh = jax.make_mesh((2, 4), ("m", "n"), axis_types=(AxisType.Explicit,) * 2)
    with jax.sharding.use_mesh(mesh) if hasattr(jax.sharding, "use_mesh") else jax.set_mesh(mesh):
        x = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P("m", "n")))
        y = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P("n", None)))
        return jax.jit(
            lambda x, y: jnp.einsum("ab,bc->ac", x, y, out_sharding=P("m", None, unreduced={"n"}))
        )(x, y)


def whole_with_pieces():
    """Whose pieces the script has looked at: JAX keeps an array for each of them."""
    array = put((24, 4), cube, "a", "b")
    assert len(array.addressable_shards) == 8
    return array


held = {
    "one axis": put((8, 3), cube, "a"),
    "two axes": put((8, 4), cube, "c", "b"),
    "two axes on one dimension": put((16, 6), cube, ("c", "a"), "b"),
    "all axes on one dimension": put((3, 16), turned, None, ("y", "x")),
    "in the middle": put((3, 8, 5), turned, None, "x"),
    "four dimensions": put((2, 4, 6, 2), cube, "a", None, "c", "b"),
    "replicated": put((5, 7), cube),
    "a scalar": put((), cube),
    "small numbers": put((64, 8), cube, "a", dtype=jnp.int4),
    "on some of the devices": put((8,), Mesh(devices[[1, 6]], ("d",)), "d"),
    "pmapped": jax.pmap(lambda x: x * 2)(np.ones((8, 5), np.float32)),
    "with pieces": whole_with_pieces(),
    "on one device": jax.device_put(np.ones((11,), np.float32), devices[3]),
}
for name, make in {"by the compiler": gspmd, "unreduced": unreduced}.items():
    try:
        held[name] = make()
    except Exception as error:
        print(f"without {name}: {type(error).__name__}: {error}", flush=True)


def facts(array):
    sharding = array.sharding
    if getattr(getattr(sharding, "spec", None), "unreduced", None):
        entries = getattr(sharding.spec, "partitions", sharding.spec)
        sharding = NamedSharding(sharding.mesh, P(*entries))  # of the other JAX does not tell
    indices = sharding.devices_indices_map(array.shape)
    spans = {
        device.id: [entry.indices(size)[:2] for entry, size in zip(index, array.shape, strict=True)]
        for device, index in indices.items()
    }
    each = int(np.prod(array.sharding.shard_shape(array.shape))) * array.dtype.itemsize
    return {"spans": spans, "shape": array.shape, "bytes_per_device": each, "devices": len(spans)}


described = {name: facts(array) for name, array in held.items()}
described["small numbers"]["bytes_per_device"] = held["small numbers"].on_device_size_in_bytes() // 8
steer = Path(os.environ["STEER"])
(steer / "draft").write_text(json.dumps(described))
(steer / "draft").rename(steer / "shardings.json")
while True:
    time.sleep(1)
