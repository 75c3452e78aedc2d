"""The costs of profiler windows, measured from inside the profiled process."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from tests.bench import probes

if TYPE_CHECKING:
    from collections.abc import Callable


class Windows:
    """The windows that an agent takes while a program runs."""

    def __init__(self, agent: Any) -> None:
        self._board = agent._agent._board
        self._taken: list[Any] = []
        self._send = self._board.send
        self._board.send = self._note

    def _note(self, message: Any) -> None:
        if type(message).__name__ == "Window":
            self._taken.append(message)
        self._send(message)

    def close(self) -> None:
        self._board.send = self._send

    def beside(self, step: Callable[[], None], seconds: float) -> dict[str, list[list[float]]]:
        """Return the steps and windows of this many seconds, each as its start and duration in seconds."""
        steps = []
        end = time.time() + seconds
        while (began := time.time()) < end:
            step()
            steps.append([began, time.time() - began])
        windows = [[each.at_ms / 1000, each.duration_us / 1e6] for each in self._taken]
        return {"steps": steps, "windows": windows}

    def gaps(self, step: Callable[[], None], threads: frozenset[int], windows: int) -> list[list[float]]:
        """Return the longest waits for the GIL while each window is taken and read, and without a window.

        Another thread trains meanwhile and at times holds the GIL, too.
        """
        over = threading.Event()

        def train() -> None:
            while not over.is_set():
                step()

        trainer = threading.Thread(target=train)
        trainer.start()
        try:
            return [[self._longest(threads, asked) for asked in (True, False)] for _ in range(windows)]
        finally:
            over.set()
            trainer.join()

    def _longest(self, threads: frozenset[int], asked: bool) -> float:
        told = len(self._taken)
        if asked:
            self._board.requests.windows += 1
            self._board.wakeups.windows.set()
        found = probes.gaps(1.0, threads)
        end = time.monotonic() + 20
        while asked and len(self._taken) == told and time.monotonic() < end:
            found += probes.gaps(0.25, threads)
        return max(found, default=0.0)


def cost(collectives: int, windows: int) -> list[dict[str, float]]:
    """Return the cost of each of `windows` windows around one launch of a program with these collectives."""
    launch = _program(collectives)
    return [_window(launch) for _ in range(windows)]


def _window(launch: Callable[[], None]) -> dict[str, float]:
    from jaxtop import traces
    from jaxtop_agent import jaxprivate
    from jaxtop_agent.core.threads import WakeEvent
    from jaxtop_agent.profiler.session import ProfilerSession
    from jaxtop_agent.profiler.trace import ProfileTrace

    def is_over() -> bool:
        """Make the launch if it was not made yet, then return true."""
        if not launched:
            launch()
            launched.append(True)
        return True

    launched: list[bool] = []
    started = time.perf_counter()
    launch()
    without = time.perf_counter() - started
    wakeup = WakeEvent()
    cpu = time.thread_time()
    profiler = jaxprivate.Profiler()
    taken = ProfilerSession(profiler, wakeup, lambda: None).take(0.0, is_over)
    stopping = time.thread_time() - cpu
    wakeup.close()
    cpu = time.thread_time()
    trace = ProfileTrace(taken.trace, profiler.parse, taken.seconds)
    seen = traces.read(
        "cpu", trace, traces.WantedCollectives({}), {device.id: device.id for device in jax.devices()}
    )
    return {
        "without": without,
        "within": taken.seconds,
        "taking": stopping,
        "reading": time.thread_time() - cpu,
        "events": seen.events,
    }


def _program(collectives: int) -> Callable[[], None]:
    mesh = Mesh(np.array(jax.devices()), ("data",))

    def reduce(x: Any) -> Any:
        for _ in range(collectives):
            x = jax.lax.psum(x, "data") * 0.1
        return x

    function = jax.jit(
        jax.shard_map(reduce, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False)
    )
    x = jnp.ones(len(jax.devices()))
    function(x).block_until_ready()
    return lambda: function(x).block_until_ready()
