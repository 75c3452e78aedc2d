"""Choose JAX devices for a mesh: what each process knows of its own, one choice for all, the mesh's order."""

from __future__ import annotations

import socket
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jaxtop.features.probe.messages import Choice, KnownDevice, Offer
from jaxtop_agent import jaxprivate
from jaxtop_agent.collectors.topology import describe
from jaxtop_agent.hardware import mapping
from jaxtop_agent.probe.store import NotArrived, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.features.probe.messages import PlacementRequest
    from jaxtop.wire import Device

    RatesOf = Callable[[str, Device], dict[str, float]]

# Seconds that other processes wait longer than process 0.
GRACE_S = 10.0
# The number of calls of the script. All processes call in the same order, so it names the call.
_call_number = 0


def devices() -> list[Any]:
    """Return all devices of the default backend, which this starts where the script has not."""
    import jax  # the script's own; it asks for JAX's devices

    return list(jax.devices())


def choose(
    wanted: PlacementRequest,
    rates_of: RatesOf,
    choose_from: Callable[[Sequence[KnownDevice]], Sequence[KnownDevice]],
    patience: float,
) -> list[Any]:
    """Return the devices that process 0 chooses, in the order of the mesh: the same in all processes."""
    import jax  # as above

    by_id = {device.id: device for device in devices()}

    def decide(offers: Sequence[Offer]) -> Choice:
        for process, offer in enumerate(offers):
            if offer.wanted != wanted:
                return Choice(
                    error=f"process 0 asks for {_words(wanted)}, process {process} for {_words(offer.wanted)}"
                )
        known = {each.id: each for offer in offers for each in offer.devices}
        found = choose_from([known[each] for each in by_id if each in known])
        ordered = in_mesh_order([by_id[each.id] for each in found], wanted.shape)
        return Choice(tuple(device.id for device in ordered))

    here = Offer(wanted, known(rates_of))
    choice = _agreed(jax.process_index(), jax.process_count(), here, decide, patience)
    if choice.error:
        raise (TimeoutError if choice.is_late else ValueError)(f"best_devices: {choice.error}")
    return [by_id[each] for each in choice.ids]


def _words(wanted: PlacementRequest) -> str:
    return f"n={wanted.n}, prefer={wanted.prefer!r}, shape={wanted.shape}"


def _agreed(
    process: int,
    processes: int,
    here: Offer,
    decide: Callable[[Sequence[Offer]], Choice],
    patience: float,
) -> Choice:
    """Return what process 0 decides, knowing the devices of all; processes must not decide on their own.

    A different order of devices in different processes would make their programs wait for each other forever.
    """
    global _call_number  # noqa: PLW0603 - counts the calls of this process
    if processes == 1:
        return decide([here])
    _call_number += 1
    try:
        # Process 0 also says which other process is late, if it has the time.
        store = Store(process, processes, patience + (GRACE_S if process else 0), "best_devices")
    except Exception as error:
        warnings.warn(
            f"best_devices: the processes cannot compare their devices ({error}); all count as equally good",
            stacklevel=4,
        )
        alike = (KnownDevice(device.id, device.process_index) for device in devices())
        return decide([Offer(here.wanted, tuple(alike))])
    own = f"figures/{_call_number}/{process}"
    store.put(own, here)
    choice: Choice | None = None
    try:
        if process == 0:
            choice = _decided(store, processes, decide)
        choice = store.decided_by_first(f"choice/{_call_number}", choice, Choice)
    except NotArrived as error:
        return Choice(error=str(error), is_late=True)
    with suppress(Exception):  # the store would grow by a few hundred bytes
        store.remove(own)
        if process == 0 and _call_number > 1:  # all have asked again, so all have read it
            store.remove(f"choice/{_call_number - 1}")
    return choice


def _decided(store: Store, processes: int, decide: Callable[[Sequence[Offer]], Choice]) -> Choice:
    try:
        return decide(
            [store.get(f"figures/{_call_number}/{process}", Offer, process) for process in range(processes)]
        )
    except NotArrived as error:
        return Choice(error=str(error), is_late=True)


def known(rates_of: RatesOf) -> tuple[KnownDevice, ...]:
    """Return this process's devices with their free memory, rates and power."""
    import jax  # as above

    own = jax.local_devices()
    gpus = mapping.local_gpus(own)
    hostname = socket.gethostname()
    found = []
    for device, gpu in zip(own, gpus, strict=True):
        described = describe(device, None if gpu is None else gpu.uuid)
        stats = jaxprivate.memory_stats(device) or {}
        limit, used = stats.get("bytes_limit"), stats.get("bytes_in_use")
        reserved = stats.get("bytes_reserved", 0)
        found.append(
            KnownDevice(
                device.id,
                device.process_index,
                hostname,
                described.platform,
                described.kind,
                described.uuid,
                None if limit is None or used is None else max(0, limit - used - reserved),
                limit,
                rates_of(hostname, described),
                None if gpu is None else _power_limit(gpu),
            )
        )
    return tuple(found)


def _power_limit(gpu: mapping.DeviceHandle) -> float | None:
    """Return what a GPU may draw, in watts; None for an instance, whose power is unknown."""
    if gpu.parent is None:
        with suppress(Exception):  # some GPUs do not say
            import pynvml  # few call this

            return float(pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu.handle)) / 1000
    return None


def in_mesh_order(chosen: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """Return the devices in row-major order of a mesh of this shape, whose neighbours are physical ones.

    JAX knows the topology of TPUs only. Devices that do not fill a block of it stay as they are.
    """
    if chosen[0].platform != "tpu":
        return list(chosen)
    from jax.experimental import mesh_utils  # as above

    slices = len({getattr(device, "slice_index", None) for device in chosen})
    first, *others = shape
    with suppress(Exception):  # each generation of TPUs refuses other shapes, with other exceptions
        if slices == 1:
            return list(mesh_utils.create_device_mesh(shape, chosen).flat)
        if first % slices == 0:
            within, between = (first // slices, *others), (slices, *(1 for _ in others))
            return list(mesh_utils.create_hybrid_device_mesh(within, between, chosen).flat)
    return list(chosen)
