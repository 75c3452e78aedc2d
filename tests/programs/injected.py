"""A process that gets the agent while it is in one SITUATION: its results must not show that.

It works in rounds of equal result until the file `go` appears, then a few more, and prints what a process
without the agent prints. `rounds-INDEX` says how far it is. `together COORDINATOR COUNT INDEX ROUNDS` sums
over several processes.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

ROUNDS_AFTER = 5
MODULES = 40


def computing():
    step = jax.jit(lambda x: jnp.sin(x) @ x / 64 + 1)
    x = jnp.ones((64, 64))
    for _ in range(20):
        x = step(x)
    return float(x.sum())


class Node:
    following = None


def collecting():
    """Make rings that only the garbage collector frees, and wait until it has freed all."""
    alive = []
    for _ in range(50):
        first = node = Node()
        for _ in range(100):
            node.following = Node()
            node = node.following
        node.following = first
        alive.append(weakref.ref(first))
    del first, node
    while any(each() is not None for each in alive):
        gc.collect()
    return len(alive)


def importing():
    """Import a tree of modules anew, one of which takes a while in its own import."""
    for name in [name for name in sys.modules if name.startswith("tree")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    return importlib.import_module("tree0").total


def plant_tree():
    for i in range(MODULES):
        below = f"from tree{i + 1} import total as below" if i + 1 < MODULES else "below = 0"
        pause = "import time; time.sleep(0.05)" if i == MODULES // 2 else ""
        Path(f"tree{i}.py").write_text(f"{below}\n{pause}\ntotal = below + {i}\n")
    sys.path.insert(0, os.getcwd())


def allocating():
    """Allocate and free in several threads without the GIL, in C code that calls malloc all the time."""
    data, sums = np.arange(200_000), []
    threads = [
        threading.Thread(
            target=lambda: sums.append(int(sum(np.sort(data[::-1])[:9].sum() for _ in range(5))))
        )
        for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return sums


def forking():
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, subprocess.run(["true"], check=False).returncode


ticks = []


def signalled():
    """Work and sleep while a signal comes every two milliseconds."""
    ticks.clear()
    digest = hashlib.sha256()
    while len(ticks) < 10:
        digest.update(b"x")
    time.sleep(0.01)
    return len(ticks) >= 10


def tick(*_):
    ticks.append(1)


def waiting():
    began = time.monotonic()
    time.sleep(0.2)
    return time.monotonic() - began >= 0.2


def together():
    """Sum over all processes."""
    mesh = jax.make_mesh((jax.device_count(),), ("all",))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("all"))
    ones = jax.make_array_from_callback((jax.device_count(),), spread, lambda _: np.ones(1, np.float32))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return float(jax.jit(jnp.sum, out_shardings=everywhere)(ones))


situation = sys.argv[1]
names = [*vars()]
if situation == "importing":
    plant_tree()
if situation == "signalled":
    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
work = vars()[situation]
wrong = rounds = left = 0
if situation == "together":  # all processes make as many rounds
    jax.distributed.initialize(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    left = int(sys.argv[5])
result = work()
mark = Path(f"rounds-{sys.argv[-2]}") if situation == "together" else Path("rounds-0")
go = Path("go")
while left or situation != "together":
    wrong += work() != result
    rounds += 1
    mark.write_text(str(rounds))
    if situation == "together":
        left -= 1
    elif go.exists():
        left += 1
        if left > ROUNDS_AFTER:
            break
signal.setitimer(signal.ITIMER_REAL, 0)
print(situation, wrong, [each.name for each in threading.enumerate()], sorted(set(vars()) - set(names)))
sys.exit(3)
