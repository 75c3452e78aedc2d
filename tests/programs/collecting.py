"""Reads frames and variables of threads that run on, while garbage is collected all the time; prints `ok`.

As in a JAX process, code of Python runs whenever that happens, and lets other threads go on meanwhile.
Run by each Python there is, without JAX: argument `threads` begins and ends threads, too.
"""

from __future__ import annotations

import gc
import sys
import threading
import time

from jaxtop_agent.arrays import frames

READS = 300 if "threads" in sys.argv else 1200
done = threading.Event()


def read() -> None:
    for _ in range(READS):
        reader = frames.FrameReader()
        for variable in frames.variables():
            reader.read(variable)
        reader.let_go()
    done.set()


def deep(calls: int) -> int:
    kept = [[] for _ in range(5)]
    return deep(calls - 1) if calls else len(kept)


gc.callbacks.append(lambda *_: time.sleep(0))
gc.set_threshold(3)
reading = threading.Thread(target=read)
reading.start()
while not done.is_set():
    for calls in range(30):
        deep(calls)
    if "threads" in sys.argv:
        short = threading.Thread(target=deep, args=(3,))
        short.start()
        short.join()
    gc.disable()
    for _ in range(100):
        assert not gc.isenabled(), "the collection was switched on"
    gc.enable()
    for _ in range(100):
        assert gc.isenabled(), "the collection was switched off"
reading.join()
print("ok")
