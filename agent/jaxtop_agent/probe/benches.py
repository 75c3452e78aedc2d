"""Micro-benchmarks of one device: each measures the sustained rate over a slot, not the peak rate.

A slot is a short interval; the plan sets its length.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.wire.probing import ProbePlan

# The part of a slot that is launched before waiting: waits then cost little, and end near the slot's end.
BATCH = 0.25
# The number of launches from which the median of a latency is meaningful.
LEAST_LAUNCHES = 5
# The effects of heat and shared power appear only after a while.
TOGETHER_SLOTS = 10


def sustained(launch: Callable[[], Any], slot: float) -> tuple[int, float]:
    """Return how many consecutive launches a device completed in about one slot, and the exact seconds."""
    launch().block_until_ready()
    batch, count = 1, 0
    start = time.perf_counter()
    while True:
        began = time.perf_counter()
        for _ in range(batch):
            last = launch()
        last.block_until_ready()
        now = time.perf_counter()
        count += batch
        if now - start >= slot:
            return count, now - start
        if now - began < slot * BATCH:
            batch *= 2


class MemoryBench:
    """y = y/2 + b in place: two arrays read and one written, none of which fits into a cache."""

    def __init__(self, devices: Sequence[Any], plan: ProbePlan) -> None:
        import jax
        import numpy as np

        self._bytes = 3 * plan.memory_bytes
        ones = unaligned_ones(plan.memory_bytes // 4)
        self._step = jax.jit(lambda y, b: y * np.float32(0.5) + b, donate_argnums=0)
        self._y = [jax.device_put(ones, device, may_alias=False) for device in devices]
        self._b = [jax.device_put(ones, device, may_alias=False) for device in devices]
        _at_once(self._launch, len(devices))

    def measure(self, place: int, slot: float) -> tuple[float, ...]:
        count, seconds = sustained(partial(self._launch, place), slot)
        return (count * self._bytes / seconds,)

    def _launch(self, place: int) -> Any:
        self._y[place] = self._step(self._y[place], self._b[place])
        return self._y[place]


class Matmul:
    """a = a @ b, launch after launch; b is scaled so that the magnitude of a stays the same."""

    def __init__(self, devices: Sequence[Any], plan: ProbePlan) -> None:
        self._flops = 2 * plan.matrix_size**3
        self._a, self._b, self._step = matrices(devices, plan.matrix_size, plan.matrix_dtype)
        _at_once(lambda place: self._step(self._a[place], self._b[place]), len(devices))

    def measure(self, place: int, slot: float) -> tuple[float, ...]:
        a, b = self._a[place], self._b[place]

        def launch() -> Any:
            nonlocal a
            a = self._step(a, b)
            return a

        count, seconds = sustained(launch, slot)
        return (count * self._flops / seconds,)


class Dispatch:
    """An almost empty function: how long the call takes, and how long until its result is ready."""

    def __init__(self, devices: Sequence[Any], _plan: ProbePlan) -> None:
        import jax
        import numpy as np

        self._step = jax.jit(lambda x: x + 1)
        self._x = [jax.device_put(np.float32(0), device) for device in devices]
        _at_once(lambda place: self._step(self._x[place]), len(devices))

    def measure(self, place: int, slot: float) -> tuple[float, ...]:
        x = self._x[place]
        enqueued: list[float] = []
        returned: list[float] = []
        self._step(x).block_until_ready()
        end = time.perf_counter() + slot
        while len(returned) < LEAST_LAUNCHES or time.perf_counter() < end:
            start = time.perf_counter()
            result = self._step(x)
            enqueued.append(time.perf_counter() - start)
            result.block_until_ready()
            returned.append(time.perf_counter() - start)
        return median(enqueued), median(returned)


class Transfer:
    """A NumPy array copied to the device, and a device array copied to NumPy, as programs do it."""

    def __init__(self, devices: Sequence[Any], plan: ProbePlan) -> None:
        import jax
        import numpy as np

        self._devices = devices
        self._host = unaligned_ones(plan.transfer_bytes // 4)
        self._copy = jax.jit(lambda x: x + 1)
        self._there = [jax.device_put(self._host, device, may_alias=False) for device in devices]
        # On a CPU, NumPy returns the device array itself, so we copy it explicitly.
        self._into = np.empty_like(self._host) if devices[0].platform == "cpu" else None
        _at_once(lambda place: self._copy(self._there[place]), len(devices))

    def measure(self, place: int, slot: float) -> tuple[float, ...]:
        import jax

        def send(_: None) -> None:
            jax.device_put(self._host, self._devices[place], may_alias=False).block_until_ready()

        def fresh() -> Any:  # a new array each time: JAX caches the host copy of an array
            return self._copy(self._there[place]).block_until_ready()

        send(None)
        seconds = _mean_seconds(lambda: None, send, slot / 2), _mean_seconds(fresh, self._bring, slot / 2)
        return self._host.nbytes / seconds[0], self._host.nbytes / seconds[1]

    def _bring(self, array: Any) -> None:
        import numpy as np

        here = np.asarray(array)
        if self._into is not None:
            np.copyto(self._into, here)


def _mean_seconds(prepare: Callable[[], Any], work: Callable[[Any], None], slot: float) -> float:
    """Return the mean time of the work, repeated until it has filled the slot; preparations do not count."""
    count, seconds = 0, 0.0
    while seconds < slot:
        prepared = prepare()
        start = time.perf_counter()
        work(prepared)
        seconds += time.perf_counter() - start
        count += 1
    return seconds / count


class Together:
    """The matrix rate of each device while all devices work."""

    def __init__(self, devices: Sequence[Any], plan: ProbePlan) -> None:
        self._matmul = Matmul(devices, plan)
        self._count = len(devices)

    def measure_all(self, slot: float) -> list[tuple[float, ...]]:
        slot *= TOGETHER_SLOTS
        return _at_once(lambda place: self._matmul.measure(place, slot), self._count)


BENCHES: dict[str, type[MemoryBench | Matmul | Dispatch | Transfer]] = {
    "memory": MemoryBench,
    "matmul": Matmul,
    "dispatch": Dispatch,
    "transfer": Transfer,
}


def unaligned_ones(count: int) -> Any:
    """Return ones at an unaligned address: a CPU device of older JAX uses an aligned array without a copy."""
    import numpy as np

    ones = np.ones(count + 16, np.float32)
    return ones[(1 - ones.ctypes.data // ones.itemsize) % 16 :][:count]


def matrices(devices: Sequence[Any], size: int, dtype: str) -> tuple[list[Any], list[Any], Any]:
    """Return two square matrices of random numbers on each device, and the function that multiplies them."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    draw = np.random.default_rng(0)
    a = draw.standard_normal((size, size), np.float32).astype(jnp.dtype(dtype))
    b = (draw.standard_normal((size, size), np.float32) / np.sqrt(size)).astype(jnp.dtype(dtype))
    step = jax.jit(lambda a, b: a @ b)
    return [jax.device_put(a, each) for each in devices], [jax.device_put(b, each) for each in devices], step


def _at_once(call: Callable[[int], Any], count: int) -> list[Any]:
    """Call for all devices at once: where each one compiles something, this saves most of the wait."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))
