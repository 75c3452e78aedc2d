"""Takes the traces of this folder: COORDINATOR INDEX FILE, in two processes with two CPU devices each.

    XLA_FLAGS=--xla_force_host_platform_device_count=2 python capture.py 127.0.0.1:7000 0 0.pb

Three launches of a reduction over both processes, a loop of three over one, and a permutation. Process 1
comes 0.2 s late to the third. The bytes are those of the profiler, unchanged.
"""

import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.lib import _profiler
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

coordinator, index, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.distributed.initialize(coordinator, 2, index)
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))


def on_each_device(x):
    x = jax.lax.psum(x, "data") / 2
    x = jax.lax.scan(lambda carry, _: (jax.lax.psum(carry, "model") / 2, None), x, None, length=3)[0]
    return jnp.tanh(jax.lax.ppermute(x, "model", [(0, 1), (1, 0)]))


both = P("data", "model")
step = jax.jit(jax.shard_map(on_each_device, mesh=mesh, in_specs=both, out_specs=both, check_vma=False))
ones = np.ones((8, 8), np.float32)
x = jax.make_array_from_callback((8, 8), NamedSharding(mesh, both), lambda part: ones[part])
x = step(x).block_until_ready()
options = _profiler.ProfileOptions()
options.python_tracer_level = 0
options.host_tracer_level = 1 if jax.__version_info__ >= (0, 10) else 2
options.enable_hlo_proto = False
session = _profiler.ProfilerSession(options)
for launch in range(3):
    time.sleep(0.2 * index * (launch == 2))
    x = step(x).block_until_ready()
time.sleep(0.02)
Path(path).write_bytes(session.stop())
