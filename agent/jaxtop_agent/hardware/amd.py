"""AMD's GPUs, through amdsmi, which comes with ROCm and is not installed by us.

Names and units are those of its documentation: https://rocm.docs.amd.com/projects/amdsmi/en/latest/
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from jaxtop_agent.hardware.reader import Off, listed
from jaxtop_agent.hardware.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.wire import Device
    from jaxtop_agent.hardware.reader import Figures

KB = 1000
# Limits of power come in microwatts, in watts from old versions; none is beyond this many watts.
MOST_WATTS = 100_000


def _activity(smi: Any, handle: Any) -> Figures:
    said = smi.amdsmi_get_gpu_activity(handle)
    return _known(
        utilization_permille=_scaled(said, "gfx_activity", 10),
        memory_activity_permille=_scaled(said, "umc_activity", 10),
    )


def _memory(smi: Any, handle: Any) -> Figures:
    kind = smi.AmdSmiMemoryType.VRAM
    return _known(
        driver_used_bytes=smi.amdsmi_get_gpu_memory_usage(handle, kind),
        driver_total_bytes=smi.amdsmi_get_gpu_memory_total(handle, kind),
    )


def _power(smi: Any, handle: Any) -> Figures:
    said = smi.amdsmi_get_power_info(handle)
    names = ("socket_power", "current_socket_power", "average_socket_power")
    watts = (_scaled(said, name, 1000) for name in names)
    return _known(power_mw=next((each for each in watts if each is not None), None))


def _power_limit(smi: Any, handle: Any) -> Figures:
    cap = _number(smi.amdsmi_get_power_cap_info(handle).get("power_cap"))
    return _known(power_limit_mw=cap and (cap / 1000 if cap > MOST_WATTS else cap * 1000))


def _energy(smi: Any, handle: Any) -> Figures:
    said = smi.amdsmi_get_energy_count(handle)
    count = _number(said.get("energy_accumulator", said.get("power")))
    resolution = _number(said.get("counter_resolution"))  # microjoules
    return _known(energy_mj=None if count is None or resolution is None else count * resolution / 1000)


def _heat(metric: str, column: str) -> Callable[[Any, Any], Figures]:
    def read(smi: Any, handle: Any) -> Figures:
        sensor, which = smi.AmdSmiTemperatureType.HOTSPOT, getattr(smi.AmdSmiTemperatureMetric, metric)
        return _known(**{column: smi.amdsmi_get_temp_metric(handle, sensor, which)})

    return read


def _clock(smi: Any, handle: Any) -> Figures:
    said = smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.GFX)
    return _known(clock_mhz=said.get("clk", said.get("cur_clk")), clock_max_mhz=said.get("max_clk"))


def _memory_clock(smi: Any, handle: Any) -> Figures:
    said = smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.MEM)
    return _known(memory_clock_mhz=said.get("clk", said.get("cur_clk")))


def _errors(smi: Any, handle: Any) -> Figures:
    said = smi.amdsmi_get_gpu_total_ecc_count(handle)
    return _known(
        ecc_corrected=said.get("correctable_count"), ecc_uncorrected=said.get("uncorrectable_count")
    )


READINGS: dict[str, Callable[[Any, Any], Figures]] = {
    "activity": _activity,
    "memory": _memory,
    "power": _power,
    "power_limit": _power_limit,
    "energy": _energy,
    "temperature": _heat("CURRENT", "temperature_c"),
    "temperature_limit": _heat("CRITICAL", "temperature_limit_c"),
    "clock": _clock,
    "memory_clock": _memory_clock,
    "ecc": _errors,
}
LINKS = {"link_received_bytes_per_s": "xgmi_read_data_acc", "link_sent_bytes_per_s": "xgmi_write_data_acc"}


class Amd:
    """Reads the GPUs that JAX's devices are."""

    def __init__(self, devices: Sequence[Device]) -> None:
        try:
            import amdsmi
        except Exception as error:  # also what its library raises that is of another version, or not there
            why = str(error).split("\n", maxsplit=1)[0][:100]
            raise Off(f"amdsmi cannot be imported ({why}); it comes with ROCm in share/amd_smi") from None
        self._smi = amdsmi
        self._refused: set[tuple[int, str]] = set()
        self._links: dict[int, tuple[float, dict[str, int]]] = {}
        try:
            amdsmi.amdsmi_init()
        except amdsmi.AmdSmiException as error:
            raise Off(_words(error)) from None
        try:
            order = _order(amdsmi)
        except amdsmi.AmdSmiException as error:
            self.close()
            raise Off(_words(error)) from None
        places = [device.local_id for device in devices]
        self._gpus = [order[each] if each is not None and each < len(order) else None for each in places]
        self.uuids = tuple(None if gpu is None else gpu[1] for gpu in self._gpus)
        if not any(self._gpus):
            self.close()
            raise Off("which GPUs these are cannot be told from HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES")

    def read(self, now: float) -> Sequence[Figures]:
        return [{} if gpu is None else self._read(place, gpu[0], now) for place, gpu in enumerate(self._gpus)]

    def _read(self, place: int, handle: Any, now: float) -> Figures:
        found: Figures = {}
        for name, reading in READINGS.items():
            found |= self._ask(place, name, partial(reading, self._smi, handle))
        return found | self._ask(place, "links", lambda: self._traffic(place, handle, now))

    def _ask(self, place: int, name: str, read: Callable[[], Figures]) -> Figures:
        """What a call gives; one that this version or GPU does not have is not made again."""
        if (place, name) in self._refused:
            return {}
        try:
            return read()
        except (AttributeError, TypeError):  # a name or a parameter of other versions
            self._refused.add((place, name))
        except self._smi.AmdSmiException as error:
            status = getattr(self._smi, "AmdSmiRetCode", None)
            lasting = {getattr(status, each, None) for each in ("NOT_SUPPORTED", "ERR_NOT_SUPPORTED")}
            lasting |= {getattr(status, each, None) for each in ("NO_PERM", "ERR_NO_PERM")}
            if getattr(error, "err_code", None) in lasting - {None} or status is None:
                self._refused.add((place, name))
        return {}

    def _traffic(self, place: int, handle: Any, now: float) -> Figures:
        """XGMI: counters in KB, one a link."""
        said = self._smi.amdsmi_get_gpu_metrics_info(handle)
        counts = {
            column: sum(each for each in links if isinstance(each, int))
            for column, name in LINKS.items()
            if isinstance(links := said.get(name), list) and any(isinstance(each, int) for each in links)
        }
        at, before = self._links.get(place, (now, {}))
        self._links[place] = now, counts
        return {
            column: round((count - before[column]) * KB / (now - at))
            for column, count in counts.items()
            if now > at and count >= before.get(column, count + 1)
        }

    def rest(self) -> None:
        self._links.clear()

    def remarks(self) -> str:
        said = []
        if missing := sum(gpu is None for gpu in self._gpus):
            said.append(f"{missing} of {len(self._gpus)} devices not found")
        if self._refused:
            said.append(f"not offered by these GPUs: {listed({name for _, name in self._refused})}")
        return "; ".join(said)

    def close(self) -> None:
        with suppress(Exception):
            self._smi.amdsmi_shut_down()


def _order(smi: Any) -> list[tuple[Any, str]]:
    """Handles and names in the order in which HIP numbers them in this process."""
    handles = list(smi.amdsmi_get_processor_handles())
    numbered: list[tuple[int, Any, str]] = []
    for handle in handles:
        number, uuid = _place(smi, handle)
        if number is None:
            if len(handles) > 1:
                return []  # by the bus is not the order that HIP has
            number = 0
        numbered.append((number, handle, uuid))
    gpus = [(handle, uuid) for _, handle, uuid in sorted(numbered, key=lambda each: each[0])]
    hip = os.environ.get("HIP_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    for text in (os.environ.get("ROCR_VISIBLE_DEVICES"), hip):  # HIP numbers what ROCR leaves
        places = visible(text, [uuid for _, uuid in gpus], len(gpus))
        gpus = [gpus[place] for place in places or ()]
    return gpus


def _place(smi: Any, handle: Any) -> tuple[int | None, str]:
    """The number that HIP gives a GPU before any are hidden, and its name; older versions tell the node."""
    with suppress(AttributeError, smi.AmdSmiException):
        said = smi.amdsmi_get_gpu_enumeration_info(handle)
        if isinstance(said.get("hip_id"), int):
            return said["hip_id"], str(said.get("hip_uuid", ""))
    uuid = ""
    with suppress(AttributeError, smi.AmdSmiException):
        uuid = str(smi.amdsmi_get_gpu_device_uuid(handle))
    with suppress(AttributeError, smi.AmdSmiException):
        node = smi.amdsmi_get_gpu_kfd_info(handle).get("node_id")
        return (node if isinstance(node, int) else None), uuid
    return None, uuid


def _words(error: Exception) -> str:
    """What amdsmi says over several lines."""
    return f"amdsmi says: {' '.join(str(error).split())}"


def _number(value: Any) -> float | None:
    """A number; what a GPU does not have is the text N/A."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and isfinite(value) else None


def _scaled(said: Any, name: str, scale: float) -> float | None:
    value = _number(said.get(name))
    return None if value is None else value * scale


def _known(**figures: Any) -> Figures:
    return {name: round(value) for name, value in figures.items() if _number(value) is not None}
