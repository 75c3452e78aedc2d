"""Planning in a script: `jaxtop.features.probe.choosing.best_devices(n)` chooses JAX devices for a mesh."""

from __future__ import annotations

from functools import partial
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any, Literal

from jaxtop.features.probe import placement
from jaxtop.features.probe.messages import PlacementRequest
from jaxtop.store import saved_probe
from jaxtop.store.probe_figures import probed_rates

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["best_devices"]


def best_devices(
    n: int,
    prefer: Literal["throughput", "latency", "energy"] = "throughput",
    *,
    shape: Sequence[int] | None = None,
    timeout: float = 300.0,
) -> list[Any]:
    """Return the n best JAX devices, in the order of a mesh.

    The best devices have the most free memory and the best rates in the last result of `jaxtop probe`. They
    stay in JAX's order, process by process; on TPUs `jax.experimental.mesh_utils` orders them. Devices of
    which nothing is known count as equally good.

    In a run of several processes, call it in every process, after `jax.distributed.initialize()`. Process 0
    chooses for all of them, so that all processes have the same mesh. Each provides as many devices as the
    others if n can be divided that way.

    Args:
        n: how many devices.
        prefer: "throughput" (rates of computing and of memory), "latency" (time of a launch) or "energy"
            (rate of computing for each watt).
        shape: the shape of the mesh, if it has several axes; reshape the result to it.
        timeout: seconds to wait for the other processes.

    Raises:
        ValueError: `n`, `prefer` or `shape` cannot be used, or differ between processes.
        TimeoutError: another process has not called this in time.
    """
    wanted = _wanted(n, prefer, shape)
    from jaxtop_agent.probe import placing  # the part that uses JAX

    there = len(placing.devices())
    if wanted.n > there:
        raise ValueError(f"n={wanted.n}: JAX has {there} device{'s' * (there != 1)}")
    choose_from = partial(placement.chosen, n=wanted.n, prefer=wanted.prefer)
    return placing.choose(wanted, partial(probed_rates, saved_probe.last()), choose_from, timeout)


def _wanted(n: int, prefer: str, shape: Sequence[int] | None) -> PlacementRequest:
    try:
        count = 0 if isinstance(n, bool) else index(n)
    except TypeError:
        count = 0
    if count < 1:
        raise ValueError(f"n={n!r} is not a number of devices")
    if prefer not in placement.PREFERENCES:
        raise ValueError(f"prefer={prefer!r} is not one of {', '.join(placement.PREFERENCES)}")
    sizes = (count,) if shape is None else tuple(index(size) for size in shape)
    if prod(sizes) != count or min(sizes, default=1) < 1 or not sizes:
        raise ValueError(f"shape={sizes} is not that of {count} devices")
    return PlacementRequest(count, prefer, sizes)
