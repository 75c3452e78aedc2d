"""The UUIDs of devices in CUDA's numbering, if JAX has initialised CUDA in this process."""

from __future__ import annotations

import ctypes
import os
from typing import Any

CUDA_SUCCESS = 0


def uuids() -> dict[int, str] | None:
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
    ask = getattr(cuda, "cuDeviceGetUuid_v2", None) or getattr(cuda, "cuDeviceGetUuid", None)
    if ask is None:
        return None
    return {ordinal: uuid for ordinal in range(count.value) if (uuid := _uuid(cuda, ask, ordinal))}


def _uuid(cuda: Any, ask: Any, ordinal: int) -> str | None:
    device = ctypes.c_int()
    raw = (ctypes.c_ubyte * 16)()
    if cuda.cuDeviceGet(ctypes.byref(device), ordinal) != CUDA_SUCCESS:
        return None
    if ask(ctypes.byref(raw), device) != CUDA_SUCCESS:
        return None
    digits = bytes(raw).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
