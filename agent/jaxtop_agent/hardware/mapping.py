"""Which GPU of the driver each JAX device is; None where that is unknown, never a wrong GPU."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop_agent import jaxprivate
from jaxtop_agent.hardware.reader import has_index, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CUDA_SUCCESS = 0


class DeviceHandle(NamedTuple):
    """A GPU, or a MIG instance with its GPU as `parent`."""

    handle: Any
    uuid: str
    title: str
    parent: Any = None


class Card(NamedTuple):
    """A GPU with its instances, if it is divided."""

    bus: str
    name: str
    place: DeviceHandle
    is_divided: bool  # into MIG instances
    instances: tuple[DeviceHandle, ...]


def local_gpus(own: Sequence[Any]) -> list[DeviceHandle | None]:
    """Return the GPU of each JAX device of this process; None where that is unknown."""
    if own and own[0].platform != "cpu":
        with suppress(Exception):  # another vendor's device, or a driver that does not answer
            import pynvml  # only where there are GPUs

            pynvml.nvmlInit()
            return find(pynvml, [jaxprivate.hardware_ordinal(device) for device in own])[0]
    return [None] * len(own)


def find(nvml: Any, ordinals: Sequence[int | None]) -> tuple[list[DeviceHandle | None], str]:
    """Return the GPU of each CUDA ordinal, and the reason why some were not found.

    JAX numbers its devices by CUDA's ordinals.
    """
    by_ordinal = _cuda_uuids()
    if by_ordinal is not None:
        found = [None if each is None else _by_uuid(nvml, by_ordinal.get(each)) for each in ordinals]
        return found, "" if all(found) else "the driver does not know what CUDA calls them"
    order, why = _by_environment(cards(nvml))
    places = [order[each] if each is not None and each < len(order) else None for each in ordinals]
    return places, "" if all(places) else why


def _by_uuid(nvml: Any, uuid: str | None) -> DeviceHandle | None:
    for kind in ("GPU-", "MIG-"):
        if uuid is not None:
            with suppress(nvml.NVMLError):
                return place_of(nvml, handle_of(nvml, kind + uuid))
    return None


def handle_of(nvml: Any, uuid: str) -> Any:
    """Return the handle of a GPU or an instance; raise NVMLError if there is none."""
    try:
        return nvml.nvmlDeviceGetHandleByUUID(uuid.encode())
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_GPU_IS_LOST:
            raise
    for index in range(nvml.nvmlDeviceGetCount()):  # any lost GPU makes the call above fail
        with suppress(nvml.NVMLError):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            if _text(nvml.nvmlDeviceGetUUID(handle)) == uuid:
                return handle
    raise nvml.NVMLError(nvml.NVML_ERROR_GPU_IS_LOST)


def place_of(nvml: Any, handle: Any) -> DeviceHandle:
    """Return the GPU or instance that a handle refers to."""
    uuid = _text(nvml.nvmlDeviceGetUUID(handle))
    if not uuid.startswith("MIG-"):
        return DeviceHandle(handle, uuid, f"GPU {nvml.nvmlDeviceGetIndex(handle)} ({uuid[:12]})")
    parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    return DeviceHandle(
        handle, uuid, f"an instance of GPU {nvml.nvmlDeviceGetIndex(parent)} ({uuid[:12]})", parent
    )


def cards(nvml: Any) -> list[Card | None]:
    """Return all GPUs in bus order, with None for a lost one."""
    found: list[Card | None] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            is_divided = _is_divided(nvml, handle)
            found.append(
                Card(
                    _text(nvml.nvmlDeviceGetPciInfo(handle).busId),
                    _text(nvml.nvmlDeviceGetName(handle)),
                    place_of(nvml, handle),
                    is_divided,
                    tuple(_instances(nvml, handle)) if is_divided else (),
                )
            )
        except nvml.NVMLError:
            found.append(None)
    return sorted(found, key=lambda card: "" if card is None else card.bus)


def _is_divided(nvml: Any, handle: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError:
        return False


def _instances(nvml: Any, handle: Any) -> Iterator[DeviceHandle]:
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with suppress(nvml.NVMLError):  # some indices have no instance
            yield place_of(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))


def _by_environment(found: Sequence[Card | None]) -> tuple[list[DeviceHandle], str]:
    """Return the devices in CUDA's order, by its documented rules, and the reason why some are missing.

    By default CUDA puts the fastest GPU first; that equals bus order only if all GPUs are of one kind. For a
    divided GPU, CUDA itself chooses the instance if the variable has an index or is not set.
    """
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    cards = [card for card in found if card is not None]
    choices = [card.place for card in cards] + [each for card in cards for each in card.instances]
    listed = visible(text, [each.uuid for each in choices], len(cards))
    in_order = os.environ.get("CUDA_DEVICE_ORDER", "").upper() == "PCI_BUS_ID"
    if listed is None:
        return [], "CUDA_VISIBLE_DEVICES has a device in it twice"
    if has_index(text) and len(cards) < len(found):
        return [], "a GPU does not answer, so the others cannot be counted"
    if has_index(text) and not in_order and len({card.name for card in cards}) > 1:
        return [], "GPUs of several kinds, numbered by speed; set CUDA_DEVICE_ORDER=PCI_BUS_ID"
    if any(cards[place].is_divided for place in listed if place < len(cards)):
        return [], "a GPU that is divided into instances is visible as a whole"
    return [choices[place] for place in listed], "CUDA_VISIBLE_DEVICES does not name them"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _cuda_uuids() -> dict[int, str] | None:
    """Return the UUID of each ordinal, in hex with dashes; None where CUDA is not initialised here.

    We never load or initialise CUDA: that takes memory on each device.
    """
    try:
        cuda = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None
    count = ctypes.c_int()
    if cuda.cuDeviceGetCount(ctypes.byref(count)) != CUDA_SUCCESS:  # 3: CUDA is not initialised
        return None
    # For a MIG instance, the first version of this function returns the UUID of the whole GPU.
    read_uuid = getattr(cuda, "cuDeviceGetUuid_v2", None) or getattr(cuda, "cuDeviceGetUuid", None)
    if read_uuid is None:
        return None
    return {ordinal: uuid for ordinal in range(count.value) if (uuid := _cuda_uuid(cuda, read_uuid, ordinal))}


def _cuda_uuid(cuda: Any, read_uuid: Any, ordinal: int) -> str | None:
    device = ctypes.c_int()
    raw = (ctypes.c_ubyte * 16)()
    if cuda.cuDeviceGet(ctypes.byref(device), ordinal) != CUDA_SUCCESS:
        return None
    if read_uuid(ctypes.byref(raw), device) != CUDA_SUCCESS:
        return None
    digits = bytes(raw).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
