"""Runs a script, and notes by a clock of its own when each step ends; after so many it tells, and waits.

A step ends where the script looks whether its loss is finite, or would tell jaxtop of it: it does not.
"""

import json
import runpy
import sys
import time
from pathlib import Path

import jax  # noqa: F401 - it takes numpy's own functions apart, and so must come before what is done below
import numpy as np

from jaxtop import agent

steps, written, script = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
sys.argv = sys.argv[3:]
times = []


def tick():
    times.append(time.perf_counter())
    if len(times) == steps:
        time.sleep(0.1)  # so that the last launch is over
        part = written.with_suffix(".part")
        part.write_text(json.dumps(times))
        part.rename(written)
        time.sleep(600)


def is_finite(value, _real=np.isfinite):
    if sys._getframe(1).f_code.co_filename.endswith(Path(script).name):
        tick()
    return _real(value)


np.isfinite = is_finite
agent.step = lambda *_words, **_metrics: tick()
if script.endswith(".py"):
    runpy.run_path(script, run_name="__main__")
else:
    runpy.run_module(script, run_name="__main__", alter_sys=True)
