"""The time for which `agent.start()` blocks the script's thread once JAX has started."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.bench.frame import Figure, median
from tests.bench.processes import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

BUDGET_MS = 30.0
# The work of a small script for comparison: wall time beyond its CPU time is due to the machine.
STARTING = """
import json, time
import jax
jax.numpy.ones(8).block_until_ready()
from jaxtop import agent
def timed(call):
    wall, cpu = time.perf_counter(), time.thread_time()
    call()
    return [(time.perf_counter() - wall) * 1000, (time.thread_time() - cpu) * 1000]
def spin():
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass
taken = {"control": timed(spin), "start": timed(agent.start)}
print(json.dumps(taken))
agent.stop()
"""


def measure(setting: Setting) -> Iterator[Figure]:
    rounds = [_round() for _ in range(setting.pick(15, 2))]
    for place, what in enumerate(("agent.start(), wall time", "agent.start(), CPU time of its thread")):
        started = median([each["start"][place] for each in rounds])
        control = median([each["control"][place] for each in rounds])
        yield Figure(what, started, "ms", control=control, budget=BUDGET_MS)


def _round() -> dict[str, list[float]]:
    done = subprocess.run(
        [sys.executable, "-c", STARTING], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    taken: dict[str, list[float]] = json.loads(done.stdout)
    return taken
