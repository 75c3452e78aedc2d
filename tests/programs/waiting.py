"""A main thread that waits, and a thread that reads its native stack: WHAT [COORDINATOR INDEX].

It prints what it has read as JSON, and waits on until it is killed. Of two processes that do `collective`,
the one with INDEX 1 never arrives.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import socket
import sys
import threading
import time

from jaxtop_agent.native import sampling, tasks, unwinding
from jaxtop_agent.native.memory import OwnMemory

FOREVER = 600
SETTLED = 5  # so many equal answers of the kernel in a row
ANY_TRACER = 0x59616D61, ctypes.c_ulong(-1)


def event():
    threading.Event().wait()


def poll():
    poller = select.poll()
    poller.register(os.pipe()[0], select.POLLIN)
    poller.poll()


def recv():
    ends = socket.socketpair()
    ends[0].recv(10)


def callback():
    import jax

    def hang(value):
        ready.set()
        time.sleep(FOREVER)
        return value

    jax.jit(lambda x: jax.pure_callback(hang, jax.ShapeDtypeStruct((), "float32"), x))(
        1.0
    ).block_until_ready()


def collective():
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    index = int(sys.argv[3])
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(sys.argv[2], 2, index)
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
    rows = np.ones((2 * jax.local_device_count(), 4), np.float32)
    batch = jax.make_array_from_callback(rows.shape, sharding, rows.__getitem__)
    total = jax.jit(lambda batch: batch.sum())
    assert float(total(batch)) == rows.size
    if index == 0:
        ready.set()
        float(total(batch))
    time.sleep(FOREVER)


def report():
    """Print the stack of the main thread once that has waited at one place for a while."""
    ready.wait()
    pid, same, before = os.getpid(), 0, ""
    while same < SETTLED:
        time.sleep(0.2)
        waiting = tasks.waiting(pid)
        same = same + 1 if waiting.is_known and waiting.text == before else 0
        before = waiting.text
    sampled = sampling.sample((), ())
    memory = OwnMemory()
    raw = unwinding.Unwinder(memory).walk(waiting.pc, waiting.sp)
    names = sampling.FunctionNames(memory, sampling.TimeLimit())
    names.look_up(raw.frames)
    frames = [(each.pc, names.name(each), each.found and each.found.name) for each in raw.frames]
    found = [
        {
            "task": each.task - pid,
            "waits_in": each.stack.waits_in,
            "waits_for": each.stack.waits_for,
            "why": each.stack.why_incomplete,
            "frames": [(one.function, one.library, one.count) for one in reversed(each.stack.frames)],
        }
        for each in sampled
    ]
    print(json.dumps({"frames": frames, "why": raw.why_incomplete, "sampled": found}), flush=True)


if __name__ == "__main__":
    # A debugger that this process did not start may look at it.
    ctypes.CDLL(None).prctl(*ANY_TRACER, 0, 0, 0)
    ready = threading.Event()
    if sys.argv[1] not in {"callback", "collective"}:
        ready.set()
    threading.Thread(target=report, daemon=True).start()
    globals()[sys.argv[1]]()
