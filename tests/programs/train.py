"""A small real training run for tests to watch: COORDINATOR COUNT INDEX (COORDINATOR `-`: no other process).

Every step ends in an all-reduce over all processes. Files in the folder STEER steer it: `stop` ends it in
order, `pause` holds it between two steps (`paused-INDEX` says that it does), `hold-gil-INDEX` holds the GIL
for so many seconds; `steps-INDEX` says how many steps were taken. WORKER forks a worker, FUNCTIONS launches
so many small functions a step.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxtop import agent

coordinator, count, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
steer = Path(os.environ["STEER"])


def hold_the_gil_when_asked() -> None:
    asked = steer / f"hold-gil-{index}"
    while True:
        time.sleep(0.05)
        if asked.exists():
            seconds = int(asked.read_text())
            asked.unlink()
            ctypes.PyDLL(None).sleep(seconds)  # unlike CDLL, PyDLL keeps the GIL during the call


def fork_a_worker() -> None:
    """As a data loader does; this one does nothing, and outlives its parent."""
    pid = os.fork()
    if pid:
        (steer / f"worker-{index}").write_text(str(pid))
        return
    signal.alarm(120)
    while True:
        signal.pause()


def small_function(number: int):
    def small(x):
        return x + number

    small.__name__ = f"small_{number}_" + "of_a_long_name" * 20
    return jax.jit(small)


def put(value: np.ndarray, *spec: object) -> jax.Array:
    return jax.make_array_from_callback(value.shape, NamedSharding(mesh, P(*spec)), value.__getitem__)


@jax.jit
def step(params, batch, wishes):
    def loss(params):
        return jnp.mean((batch @ params["w"] + params["b"]) ** 2)

    value, gradient = jax.value_and_grad(loss)(params)
    params = jax.tree.map(lambda p, g: p - 1e-3 * g, params, gradient)
    return params, value, wishes.sum(axis=0)


agent.start(name=os.environ.get("NAME", "train"))
if coordinator != "-":
    jax.distributed.initialize(coordinator, count, index)
threading.Thread(target=hold_the_gil_when_asked, daemon=True).start()
if "WORKER" in os.environ:
    fork_a_worker()

mesh = Mesh(np.array(jax.devices()).reshape(-1, 2), ("data", "model"))
params = {
    "w": put(np.ones((512, 256), np.float32), None, "model"),
    "b": put(np.ones(256, np.float32), "model"),
}
batch = put(np.ones((64, 512), np.float32), "data", None)
small_functions = [small_function(i) for i in range(int(os.environ.get("FUNCTIONS", "0")))]
steps = 0
while True:
    # What one process is asked for, all others hear of in the same step, so that none waits for it for ever.
    wish = [(steer / "stop").exists(), (steer / "pause").exists()]
    wishes = put(np.full((mesh.size, 2), wish, np.int32), ("data", "model"))
    try:
        params, loss, heard = step(params, batch, wishes)
        for small in small_functions:
            small(np.float32(0))
        steps += 1
        agent.step(steps, loss=loss)
        (steer / f"steps-{index}").write_text(str(steps))
        stop, pause = np.asarray(heard)
    except Exception:  # the others are lost: stay, as a script does that hopes for their return
        while not (steer / "stop").exists():
            time.sleep(0.1)
        os._exit(1)
    if stop:
        break
    if pause:
        (steer / f"paused-{index}").touch()
        while (steer / "pause").exists():
            time.sleep(0.02)
        (steer / f"paused-{index}").unlink()
    time.sleep(0.15)
