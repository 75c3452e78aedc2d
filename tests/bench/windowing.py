"""What windows of the profiler cost, measured from inside the process that they are taken in."""

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
        self._told: list[Any] = []
        self._tell = self._board.tell
        self._board.tell = self._note

    def _note(self, message: Any) -> None:
        if type(message).__name__ == "Window":
            self._told.append(message)
        self._tell(message)

    def close(self) -> None:
        self._board.tell = self._tell

    def beside(self, step: Callable[[], None], seconds: float) -> dict[str, list[list[float]]]:
        """Steps and windows of so long, each as when it began and how long it took, in seconds."""
        steps = []
        end = time.time() + seconds
        while (began := time.time()) < end:
            step()
            steps.append([began, time.time() - began])
        windows = [[each.at_ms / 1000, each.duration_us / 1e6] for each in self._told]
        return {"steps": steps, "windows": windows}

    def gaps(self, step: Callable[[], None], threads: frozenset[int], windows: int) -> list[list[float]]:
        """The longest waits for the GIL while a window is taken and read, each beside one without a window.

        Another thread trains meanwhile, and holds it now and then, too.
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
        told = len(self._told)
        if asked:
            self._board.captures_asked += 1
            self._board.windows_bell.ring()
        found = probes.gaps(1.0, threads)
        end = time.monotonic() + 20
        while asked and len(self._told) == told and time.monotonic() < end:
            found += probes.gaps(0.25, threads)
        return max(found, default=0.0)


def cost(collectives: int, launches: int) -> dict[str, float]:
    """CPU and time of one window over so many launches of a program with so many collectives."""
    from jaxtop_agent import jaxprivate
    from jaxtop_agent.threads import Wake
    from jaxtop_agent.windows import traces
    from jaxtop_agent.windows.session import Sessions

    launch = _program(collectives)
    profiler = jaxprivate.Profiler()
    bell = Wake()
    counted = iter(range(launches))

    def is_over() -> bool:
        """Not over before so many launches were made."""
        for _ in counted:
            launch()
        return True

    started = time.perf_counter()
    for _ in range(launches):
        launch()
    without = time.perf_counter() - started
    taken = Sessions(profiler, bell).take(0.0, is_over)
    bell.close()
    profile, taken.trace = taken.trace, None
    cpu, began = time.thread_time(), time.perf_counter()
    seen = traces.read("cpu", profile, traces.Wanted({}), {device.id: device.id for device in jax.devices()})
    return {
        "without": without,
        "within": taken.seconds,
        "read_cpu": time.thread_time() - cpu,
        "read": time.perf_counter() - began,
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
