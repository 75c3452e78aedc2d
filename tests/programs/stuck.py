"""Steps with an all-reduce over all processes, until one does something else: WHAT COORDINATOR COUNT INDEX.

The last process does WHAT after some steps, and the others wait for it in their next step (`-` as the
coordinator: alone). What ends by itself lasts for SECONDS; then all make a few more steps, and end in order.
"""

from __future__ import annotations

import ctypes
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxtop import agent

what, coordinator, count, index = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
SECONDS = float(os.environ.get("SECONDS", "20"))
FOREVER = 600.0
BEFORE, AFTER = 25, 5
FOLDER = Path(os.environ["STEER"])


@jax.jit
def step(state, batch):
    return state + batch.sum()


@jax.jit
def other(batch):
    return jax.lax.with_sharding_constraint(batch * 2, NamedSharding(mesh, P()))


def put(value, spec):
    return jax.make_array_from_callback(value.shape, NamedSharding(mesh, spec), value.__getitem__)


def until(end):
    return iter(lambda: time.monotonic() < end, False)


# What is stuck


def mismatch():
    float(other(put(np.ones((mesh.size, 2), np.float32), P("data")))[0, 0])


def sleep():
    time.sleep(FOREVER)


def poll():
    while True:
        time.sleep(0.05)


def lock():
    once = threading.Lock()
    once.acquire()
    once.acquire()


def threads():
    locks = threading.Lock(), threading.Lock()

    def take(first, second):
        with first:
            time.sleep(0.3)
            with second:
                pass

    thread = threading.Thread(target=take, args=locks, daemon=True)
    thread.start()
    take(*locks[::-1])


def native():
    ctypes.CDLL(None).pause()  # without Python's lock, and no signal comes


def silent():
    here, _there = socket.socketpair()
    here.recv(1)


def child():
    code = "import os, time\nwhile os.getppid() == int(os.sys.argv[1]): time.sleep(1)"
    subprocess.run([sys.executable, "-c", code, str(os.getpid())], stdout=subprocess.DEVNULL, check=False)


# What is not


def compute():
    matrix = np.ones((200, 200))
    for _ in until(time.monotonic() + SECONDS):
        matrix = matrix @ matrix / 200


def trace():
    @jax.jit
    def large(x):
        time.sleep(SECONDS)  # tracing, which is a part of compiling
        return x + 1

    large(np.ones(3)).block_until_ready()


def unroll():
    """Compile with XLA, while the main thread waits for it: the function grows until it takes long enough."""
    end, length = time.monotonic() + SECONDS, 500

    while time.monotonic() < end:

        @jax.jit
        def large(x, length=length):
            for i in range(length):
                x = jax.numpy.sin(x) * i + x @ x
            return x

        large(np.ones((8, 8), np.float32)).block_until_ready()
        length = min(2 * length, 4000)


def save_checkpoint():
    time.sleep(SECONDS)


def phase():
    with agent.phase("restore"):
        time.sleep(SECONDS)


def write():
    """Write a little at a time, as to a slow disk; no name says that it saves."""
    with (FOLDER / f"written-{index}").open("wb") as file:
        for _ in until(time.monotonic() + SECONDS):
            file.write(bytes(4096))
            file.flush()
            time.sleep(0.5)


def read():
    (FOLDER / f"data-{index}").write_bytes(bytes(1 << 20))
    with (FOLDER / f"data-{index}").open("rb", buffering=0) as file:
        for _ in until(time.monotonic() + SECONDS):
            file.read(4096)
            time.sleep(0.5)


def receive():
    """Receive a little at a time from another machine, for which a child stands."""
    served = socket.create_server(("127.0.0.1", 0))
    code = (
        "import socket, sys, time\n"
        "far = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "end = time.monotonic() + float(sys.argv[2])\n"
        "while time.monotonic() < end:\n"
        "    far.sendall(bytes(2048)); time.sleep(1)\n"
    )
    words = [sys.executable, "-c", code, str(served.getsockname()[1]), str(SECONDS)]
    with subprocess.Popen(words):
        near, _ = served.accept()
        while near.recv(1 << 16):
            pass


def subprocesses():
    code = f"import time\nend = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end: pass"
    subprocess.run([sys.executable, "-c", code], check=True)


def load():
    batches: queue.Queue[int] = queue.Queue()
    threading.Thread(target=lambda: (time.sleep(SECONDS), batches.put(1)), daemon=True).start()
    batches.get()


def steps():
    """Make steps that are slower than all before, each faster than the limit."""
    for _ in until(time.monotonic() + SECONDS):
        agent.step(0)
        time.sleep(3)


def small():
    """Launch something else now and then, without the others."""
    for _ in until(time.monotonic() + SECONDS):
        local(np.ones(3)).block_until_ready()
        time.sleep(3)


def pause():
    """Do nothing for a while: whether that is stuck depends on who asks."""
    time.sleep(SECONDS)


def stopped():
    """Say that it can be stopped now; who stops it lets it go on."""
    (FOLDER / "stop-me").touch()
    time.sleep(1)


local = jax.jit(lambda x: x + 1)
if os.environ.get("NOT_ASKED") == str(index):
    os.environ.pop("JAXTOP_END_IF_STUCK")
agent.start(name=os.environ.get("NAME", "stuck"))
if coordinator != "-":
    jax.distributed.initialize(coordinator, count, index)
mesh = Mesh(np.array(jax.devices()), ("data",))
local(np.ones(3)).block_until_ready()
state = put(np.zeros((), np.float32), P())
for number in range(BEFORE + AFTER):
    if number == BEFORE:
        print("begins", flush=True)
        if index == count - 1:
            globals()[what]()
    state = step(state, put(np.ones((mesh.size,), np.float32), P("data")))
    state.block_until_ready()
    time.sleep(0.2)
print("done", float(state), flush=True)
