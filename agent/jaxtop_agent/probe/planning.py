"""The plan of a probe: measurements and their sizes. Process 0 decides once, from all reports."""

from __future__ import annotations

import time
from math import prod
from typing import TYPE_CHECKING, Any

from jaxtop.wire.probing import ALL, BENCHES, COLLECTIVES, KINDS, Here, Meeting, ProbePlan, ProbeRequest
from jaxtop_agent.probe.benches import TOGETHER_SLOTS, matrices

if TYPE_CHECKING:
    from collections.abc import Sequence


# The share of the requested time for single devices, if there are collectives, too.
LOCAL_SHARE = 0.45
MOST_ROUNDS, LEAST_ROUNDS = 15, 10
LONGEST_SLOT, SHORTEST_SLOT = 0.03, 0.004
# The least seconds of a multiplication, so that the launch overhead does not count.
LEAST_LAUNCH = 0.004
SIZES = (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
MB = 1_000_000
# The share of the free memory that may be used.
MEMORY_SHARE = 1 / 8
LEAST_ARRAY, MOST_ARRAY = 16 * MB, 512 * MB
CPU_TRANSFER, TRANSFER = 8 * MB, 64 * MB
CPU_SIZES = (64_000, 1 * MB, 4 * MB)
DEVICE_SIZES = (1 * MB, 16 * MB, 128 * MB)


class Unfit(Exception):
    """The request cannot be measured; the text says why."""


def plan(
    request: ProbeRequest, everyone: Sequence[Here], devices: Sequence[Any], own: Sequence[Any]
) -> ProbePlan:
    """Return the plan for all processes; matrix sizes are tried on the first of its `own` devices."""
    _must_fit(request.mesh, len(devices))
    is_cpu = devices[0].platform == "cpu"
    # CPU devices share the cores, so "together" says nothing about them.
    benches = [name for name in BENCHES if name in (request.only or BENCHES)]
    if is_cpu and not request.only:
        benches.remove("together")
    turns = turns_of(everyone)
    dtype = "float32" if is_cpu else "bfloat16"
    array = _array(everyone, is_cpu=is_cpu)
    size = _matrix_size(own[0], dtype, array) if {"matmul", "together"} & set(benches) else SIZES[0]
    axes: tuple[tuple[str, int], ...] = ()
    meetings: tuple[Meeting, ...] = ()
    if (COLLECTIVES in request.only or not request.only) and len(devices) > 1:
        axes, meetings = collectives(request, everyone, devices, most=array)
    most_devices = max(len(each.devices) for each in everyone)
    share = LOCAL_SHARE if meetings else 0.9
    slots = (max(turns) + 1) * most_devices * sum(name != "together" for name in benches)
    slots += TOGETHER_SLOTS * ("together" in benches)
    rounds, slot = _rounds_and_slot(request.seconds * share, slots)
    return ProbePlan(
        benches=tuple(benches),
        rounds=rounds,
        slot_s=slot,
        turns=turns,
        matrix_size=size,
        matrix_dtype=dtype,
        memory_bytes=array,
        transfer_bytes=min(array, CPU_TRANSFER if is_cpu else TRANSFER),
        axes=axes,
        meetings=meetings,
    )


def turns_of(everyone: Sequence[Here]) -> tuple[int, ...]:
    """Return the turn of each process: one after the other on one machine, machines at the same time."""
    before: dict[str, int] = {}
    turns = []
    for each in everyone:
        machine = _machine(each)
        turns.append(before.get(machine, 0))
        before[machine] = turns[-1] + 1
    return tuple(turns)


def _machine(each: Here) -> str:
    return each.boot or each.hostname  # not every system has boot ids


def _rounds_and_slot(seconds: float, slots: int) -> tuple[int, float]:
    """Return the rounds and the slot length that fill the time; a slot takes 1.5 times its nominal length."""
    if not slots:
        return LEAST_ROUNDS, SHORTEST_SLOT
    slot = min(LONGEST_SLOT, max(SHORTEST_SLOT, seconds / (1.5 * slots * LEAST_ROUNDS)))
    return max(LEAST_ROUNDS, min(MOST_ROUNDS, int(seconds / (1.5 * slots * slot)))), slot


def _array(everyone: Sequence[Here], *, is_cpu: bool) -> int:
    """Return the bytes of an array that fits on every device.

    On CPUs the array is at least as large as the largest cache, if there is room, so that two arrays take
    twice the cache.
    """
    rooms = []
    for each in everyone:
        sharing = sum(len(other.devices) for other in everyone if _machine(other) == _machine(each))
        for limit in each.device_bytes:
            room = each.machine_bytes // sharing if is_cpu or limit is None else limit
            rooms.append(int(room * MEMORY_SHARE))
    wanted = max(4 * MB, *(each.cache_bytes for each in everyone)) if is_cpu else MOST_ARRAY
    fitting = min([MOST_ARRAY, max(LEAST_ARRAY, wanted), *rooms])
    return max(4096, fitting - fitting % 4096)


def _matrix_size(device: Any, dtype: str, most_bytes: int) -> int:
    """Return the smallest size whose multiplication takes long enough on this device."""
    import jax.numpy as jnp

    fitting = [size for size in SIZES if size * size * jnp.dtype(dtype).itemsize <= most_bytes] or [SIZES[0]]
    at = min(2, len(fitting) - 1)
    while True:
        (a,), (b,), step = matrices([device], fitting[at], dtype)
        step(a, b).block_until_ready()
        seconds = min(_timed(step, a, b) for _ in range(3))
        if seconds >= LEAST_LAUNCH or at == len(fitting) - 1:
            return fitting[at]
        enough = fitting[at] * (LEAST_LAUNCH / seconds) ** (1 / 3)
        # The cube root of the missing factor bounds the step, as small sizes are slow for their size.
        at = next((i for i, size in enumerate(fitting) if i > at and size >= enough), len(fitting) - 1)


def _timed(step: Any, a: Any, b: Any) -> float:
    start = time.perf_counter()
    step(a, b).block_until_ready()
    return time.perf_counter() - start


def collectives(
    requested: ProbeRequest, everyone: Sequence[Here], devices: Sequence[Any], most: int
) -> tuple[tuple[tuple[str, int], ...], tuple[Meeting, ...]]:
    """Return the axes, and every kind of collective over each axis in a few sizes, the middle sizes first."""
    axes, grid = _mesh(requested.mesh, everyone, devices)
    groups = {
        name: tuple(tuple(int(device.id) for device in group) for group in _along(grid, number))
        for number, (name, size) in enumerate(axes)
        if size > 1
    }
    if len(devices) not in [size for _, size in axes]:
        groups[ALL] = (tuple(int(device.id) for device in grid.flat),)
    sizes = requested.sizes or (CPU_SIZES if devices[0].platform == "cpu" else DEVICE_SIZES)
    fitting = sorted({size for size in sizes if size <= most} or {min(sizes)})
    middle = (len(fitting) - 1) / 2
    meetings = [
        Meeting(name, kind, _divisible(size, len(members[0])), members)
        for size in sorted(fitting, key=lambda size: abs(fitting.index(size) - middle))
        for name, members in groups.items()
        for kind in KINDS
    ]
    return axes, tuple(meetings)


def _divisible(size: int, members: int) -> int:
    """Return a size near this one, so that every member has the same number of whole floats."""
    return max(1, round(size / (4 * members))) * 4 * members


def _along(grid: Any, axis: int) -> Any:
    import numpy as np

    return np.moveaxis(grid, axis, -1).reshape(-1, grid.shape[axis])


def _must_fit(mesh: tuple[tuple[str, int], ...], count: int) -> None:
    """Raise unless a requested mesh has exactly one place for each device."""
    places = prod(size for _, size in mesh)
    if mesh and places != count:
        words = ",".join(f"{name}={size}" for name, size in mesh)
        raise Unfit(f"--mesh {words} is for {places} devices; here {'is' if count == 1 else 'are'} {count}")


def _mesh(
    requested: tuple[tuple[str, int], ...], everyone: Sequence[Here], devices: Sequence[Any]
) -> tuple[tuple[tuple[str, int], ...], Any]:
    """Return the axes and the devices on them; hosts × devices by default, where there are several hosts."""
    import numpy as np

    if not requested:
        each = len(everyone[0].devices)
        if len(everyone) == 1 or any(len(here.devices) != each for here in everyone):
            return (("devices", len(devices)),), np.array(devices)
        ordered = sorted(devices, key=lambda device: device.process_index)  # stable within a process
        axes = (("hosts", len(everyone)), ("devices", each))
        return axes, np.array(ordered).reshape(len(everyone), each)
    from jax.experimental import mesh_utils

    return requested, mesh_utils.create_device_mesh([size for _, size in requested], devices)
