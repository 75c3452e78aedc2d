"""What devices can compute at most, by their makers' data sheets: to be set beside what a run achieves."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.wire import Device, Hello

TOLD = "JAXTOP_PEAK_FLOPS"
NVIDIA = "NVIDIA's data sheet, dense bfloat16"
NVIDIA_HALF = "NVIDIA's data sheet, dense float16"
GOOGLE = "Google Cloud's TPU documentation, bfloat16"
AMD = "AMD's data sheet, dense bfloat16"


class Peak(NamedTuple):
    """Operations a second that a device can do, and who says so."""

    flops: float
    source: str


# By what JAX calls the kind of a device, the narrower names first; TeraFLOPS of a chip. Makers also print
# figures for sparse matrices: those are twice as high, and not meant here.
_KINDS: tuple[tuple[str, float, str], ...] = (
    (r"GB200|B300|GB300", 2500, NVIDIA),
    (r"\bB200", 2250, NVIDIA),
    (r"H200|GH200", 989, NVIDIA),
    (r"H100 PCIe", 756, NVIDIA),
    (r"H100 NVL", 835, NVIDIA),
    (r"H100|H800", 989, NVIDIA),
    (r"\bH20\b", 148, NVIDIA),
    (r"A100|A800", 312, NVIDIA),
    (r"\bA40\b", 149.7, NVIDIA),
    (r"\bA30\b", 165, NVIDIA),
    (r"L40S", 362, NVIDIA),
    (r"\bL40\b", 181, NVIDIA),
    (r"\bL4\b", 121, NVIDIA),
    (r"V100-SXM", 125, NVIDIA_HALF),
    (r"V100", 112, NVIDIA_HALF),
    (r"\bT4\b", 65, NVIDIA_HALF),
    (r"TPU7x|TPU v7", 2307, GOOGLE),
    (r"TPU v6 lite|TPU v6e", 918, GOOGLE),
    (r"TPU v5 lite|TPU v5e", 197, GOOGLE),
    (r"TPU v5", 459, GOOGLE),
    (r"TPU v4", 275, GOOGLE),
    (r"TPU v3", 123, GOOGLE),
    (r"TPU v2", 45, GOOGLE),
    (r"MI355X", 2516, AMD),
    (r"MI300X|MI325X", 1307, AMD),
    (r"MI300A", 981, AMD),
    (r"MI250X", 191.5, AMD),  # JAX has a device for each half of it
    (r"MI210", 181, AMD),
)


def peak_of(hello: Hello, device: Device) -> Peak | None:
    """The peak of a device; None where nobody knows it. What the run's owner says goes before any table."""
    if hello.peak_flops is not None:
        return Peak(hello.peak_flops, TOLD)
    for pattern, tera, source in _KINDS:
        if re.search(pattern, device.kind, re.IGNORECASE):
            return Peak(tera * 1e12 / _devices_on_chip(hello.devices, device), source)
    return None


def _devices_on_chip(devices: Sequence[Device], device: Device) -> int:
    """TPUs may have a device for each core of a chip: these have the coordinates of the chip."""
    if device.coords is None:
        return 1
    return Counter((each.slice_index, each.coords) for each in devices)[device.slice_index, device.coords]
