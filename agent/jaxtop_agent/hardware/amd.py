"""AMD GPUs, read from the files of their driver in /sys.

Names and units follow https://docs.kernel.org/gpu/amdgpu/thermal.html and driver-misc.html next to it. A
process that runs JAX cannot use AMD's own library: it shares symbols with the one that RCCL loads, and the
process ends in "double free or corruption" (https://github.com/ROCm/amdsmi/pull/108).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.hardware.reader import Figures, Off, listed, visible
from jaxtop_agent.machine.files import number, numbers, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.wire import Device

NODES = "sys/class/kfd/kfd/topology/nodes"
# Column: the files that contain it, preferred file first, and the factor that converts the file's value to
# the column's unit. The temperature is that of the hottest sensor; power is in microwatts, clocks are in
# hertz.
FILES: Mapping[str, tuple[tuple[str, ...], float]] = {
    "utilization_permille": (("gpu_busy_percent",), 10),
    "memory_activity_permille": (("mem_busy_percent",), 10),
    "driver_used_bytes": (("mem_info_vram_used",), 1),
    "driver_total_bytes": (("mem_info_vram_total",), 1),
    "power_mw": (("hwmon/power1_average", "hwmon/power1_input"), 1e-3),
    "power_limit_mw": (("hwmon/power1_cap",), 1e-3),
    "temperature_c": (("hwmon/temp2_input",), 1e-3),
    "temperature_limit_c": (("hwmon/temp2_crit",), 1e-3),
    "clock_mhz": (("hwmon/freq1_input",), 1e-6),
    "memory_clock_mhz": (("hwmon/freq2_input",), 1e-6),
}
CLOCKS = "pp_dpm_sclk"  # lines like `1: 2100Mhz *`
ERRORS = "ras/umc_err_count"  # of the memory, lines like `ue: 0` and `ce: 4`
COLUMNS = frozenset({*FILES, "clock_max_mhz", "ecc_corrected", "ecc_uncorrected"})
# The bits above these hold the number of a partition.
PLACE = (1 << 28) - 1


class AmdGpu(NamedTuple):
    """The folders of a GPU in /sys, and its name; the driver has no files for a partition of a GPU."""

    folder: str | None
    sensors: str
    uuid: str

    def read(self) -> Figures:
        """Return all figures that are available now."""
        if self.folder is None:
            return {}
        found: Figures = {}
        for column, (files, scale) in FILES.items():
            value = next((each for name in files if (each := number(self._content(name))) is not None), None)
            if value is not None:
                found[column] = round(value * scale)
        clocks = re.findall(r"(\d+)mhz", (self._content(CLOCKS) or "").lower())
        if clocks:
            found["clock_max_mhz"] = max(map(int, clocks))
        errors = numbers(self._content(ERRORS), ":")
        for column, name in (("ecc_corrected", "ce"), ("ecc_uncorrected", "ue")):
            if name in errors:
                found[column] = errors[name]
        return found

    def _content(self, name: str) -> str | None:
        return text(f"{self.folder}/{name.replace('hwmon', self.sensors)}")


# The compute partition mode of a GPU that is not divided.
WHOLE = "SPX"


class Amd:
    """A reader of the GPUs behind JAX's devices."""

    def __init__(self, devices: Sequence[Device], root: str = "/") -> None:
        found = gpus(root)
        if not found:
            raise Off("no AMD GPU may be used here; in a container, start it with --device /dev/kfd /dev/dri")
        order = _visible(found)
        places = [device.local_id for device in devices]
        self._gpus = [order[each] if each is not None and each < len(order) else None for each in places]
        self._missing: frozenset[str] = frozenset()
        self.uuids = tuple(None if gpu is None else gpu.uuid or None for gpu in self._gpus)
        if not any(self._gpus):
            raise Off(
                "these devices cannot be matched to GPUs by HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES"
            )

    def read(self, now: float) -> Sequence[Figures]:  # noqa: ARG002 - no figure is a rate
        found = [{} if gpu is None else gpu.read() for gpu in self._gpus]
        offered = [figures.keys() for figures, gpu in zip(found, self._gpus, strict=True) if gpu is not None]
        self._missing = frozenset[str]().union(*(COLUMNS - columns for columns in offered))
        return found

    def rest(self) -> None:
        """Do nothing: no figure depends on an earlier reading."""

    def remarks(self) -> str:
        remarks = []
        if missing := sum(gpu is None for gpu in self._gpus):
            remarks.append(f"{missing} of {len(self._gpus)} devices not found")
        if any(gpu is not None and gpu.folder is None for gpu in self._gpus):
            remarks.append("no figures of partitions of a GPU")
        elif self._missing:
            remarks.append(f"not offered by these GPUs: {listed(self._missing)}")
        return "; ".join(remarks)

    def close(self) -> None:
        """Do nothing: no resource is held."""


def gpus(root: str = "/") -> list[AmdGpu]:
    """Return the GPUs that this process may use, in HIP's order before environment variables hide any."""
    nodes = Path(root, NODES)
    found: list[tuple[str, tuple[int, int]]] = []  # the render node, the bus address
    for node in sorted(nodes.glob("[0-9]*"), key=lambda each: int(each.name)):
        if not number(text(f"{node}/gpu_id")):  # a CPU, or a GPU that this process may not use
            continue
        properties = numbers(text(f"{node}/properties"))
        render = f"renderD{properties.get('drm_render_minor')}"
        if os.access(f"{root}/dev/dri/{render}", os.R_OK | os.W_OK):  # ROCm omits the others, too
            found.append((render, (properties.get("domain", 0), properties.get("location_id", 0) & PLACE)))
    parts = Counter(place for _, place in found)
    return [_gpu(root, render, is_whole=parts[place] == 1) for render, place in found]


def _gpu(root: str, render: str, *, is_whole: bool) -> AmdGpu:
    folder = f"{root}/sys/class/drm/{render}/device"
    # A container may see only one partition of a divided GPU, so a count of 1 does not prove that it is
    # whole.
    is_whole = is_whole and (text(f"{folder}/current_compute_partition") or WHOLE).strip() == WHOLE
    sensors = next((each.name for each in Path(folder, "hwmon").glob("hwmon*")), "")
    name = (text(f"{folder}/unique_id") or "").strip()
    return AmdGpu(folder if is_whole else None, f"hwmon/{sensors}", f"GPU-{name}" if name else "")


def _visible(found: list[AmdGpu]) -> list[AmdGpu]:
    """Return the GPUs that the environment variables select, in their order."""
    # HIP treats an empty list as unset (rocdevice.cpp in ROCm's clr). Its indices count what ROCR leaves.
    hip = os.environ.get("HIP_VISIBLE_DEVICES") or os.environ.get("CUDA_VISIBLE_DEVICES") or None
    for listing in (os.environ.get("ROCR_VISIBLE_DEVICES"), hip):
        places = visible(listing, [gpu.uuid for gpu in found], len(found))
        found = [found[place] for place in places or ()]
    return found
