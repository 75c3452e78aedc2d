"""The peak performance of devices from vendors' data sheets, to compare with what a run achieves."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.wire import Device, Hello

SET_BY_OWNER = "JAXTOP_PEAK_FLOPS"
NVIDIA = "NVIDIA's data sheet, dense bfloat16"
NVIDIA_HALF = "NVIDIA's data sheet, dense float16"
GOOGLE = "Google Cloud's TPU documentation, bfloat16"
AMD = "AMD's data sheet, dense bfloat16"


class Peak(NamedTuple):
    """Operations a second that a device can do, the source of the figure, and its memory's bytes a second.

    The bytes are always the vendor's figure; None where it gives none.
    """

    flops: float
    source: str
    bytes: float | None = None


# TeraFLOPS of a chip and gigabytes a second of its memory, by JAX's name of the device kind, narrower
# patterns first. Vendors also print figures for sparse matrices, which are twice as high; they are not used.
_KINDS: tuple[tuple[str, float, float | None, str], ...] = (
    (r"\bGB[23]00\b", 2500, 8000, NVIDIA),
    (r"\bB[23]00\b", 2250, 8000, NVIDIA),
    (r"\bH200 NVL\b", 835, 4800, NVIDIA),
    (r"\bH100 NVL\b", 835, 3900, NVIDIA),
    (r"\bH200\b", 989, 4800, NVIDIA),
    (r"\bGH200\b", 989, None, NVIDIA),  # there are two kinds of memory
    (r"\bH[18]00 PCIe\b", 756, 2000, NVIDIA),
    (r"\bH[18]00\b", 989, 3350, NVIDIA),
    (r"\bH20\b", 148, 4000, NVIDIA),
    (r"\bA100\b.*\b40GB", 312, 1555, NVIDIA),
    (r"\bA[18]00 80GB PCIe\b", 312, 1935, NVIDIA),
    (r"\bA[18]00\b.*\b80GB", 312, 2039, NVIDIA),
    (r"\bA[18]00\b", 312, None, NVIDIA),  # whole words: an RTX A1000 is a small card
    (r"\bA40\b", 149.7, 696, NVIDIA),
    (r"\bA30\b", 165, 933, NVIDIA),
    (r"\bL40S\b", 362, 864, NVIDIA),
    (r"\bL40\b", 181, 864, NVIDIA),
    (r"\bL4\b", 121, 300, NVIDIA),
    (r"\bV100-SXM", 125, 900, NVIDIA_HALF),
    (r"\bV100S-PCIE", 130, 1134, NVIDIA_HALF),
    (r"\bV100-PCIE", 112, 900, NVIDIA_HALF),
    (r"\bT4\b", 65, 320, NVIDIA_HALF),
    (r"TPU ?7x|TPU v7x", 2307, 7380, GOOGLE),
    (r"TPU v6 lite|TPU v6e", 918, 1638, GOOGLE),
    (r"TPU v5 lite|TPU v5e", 197, 819, GOOGLE),
    (r"TPU v5p?$", 459, 2765, GOOGLE),
    (r"TPU v4$", 275, 1228, GOOGLE),  # "TPU v4 lite" has half of it
    (r"TPU v3$", 123, 900, GOOGLE),
    (r"TPU v2$", 45, 700, GOOGLE),
    (r"MI355X", 2516, 8000, AMD),
    (r"MI300X", 1307, 5300, AMD),
    (r"MI325X", 1307, 6000, AMD),
    (r"MI300A", 981, 5300, AMD),
    (
        r"MI250X(?! ?/)",
        191.5,
        1638,
        AMD,
    ),  # JAX has a device for each half of it; "MI250X / MI250" is ambiguous
    (r"MI210", 181, 1638, AMD),
)
# What CUDA adds to the name of a part of a GPU: "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
_INSTANCE = re.compile(r"\bMIG\b")
# A device is always one of the two cores of a chip, even if a process has only one of them.
_TWO_CORES = re.compile(r"TPU ?(7x|v7x|v3|v2)", re.IGNORECASE)


def peak_of(hello: Hello, device: Device) -> Peak | None:
    """Return the peak of a device; None if unknown. A value that the run's owner sets overrides the table."""
    published = _published(hello, device)
    if hello.peak_flops is None:
        return published
    return Peak(hello.peak_flops, SET_BY_OWNER, None if published is None else published.bytes)


def _published(hello: Hello, device: Device) -> Peak | None:
    if _INSTANCE.search(device.kind):
        return None
    for pattern, tera, giga, source in _KINDS:
        if re.search(pattern, device.kind, re.IGNORECASE):
            here = _devices_on_chip(hello.devices, device)
            return Peak(tera * 1e12 / here, source, None if giga is None else giga * 1e9 / here)
    return None


def _devices_on_chip(devices: Sequence[Device], device: Device) -> int:
    """Return the devices on a device's chip. TPUs with a device for each core share coordinates."""
    least = 2 if _TWO_CORES.fullmatch(device.kind) else 1
    if device.coords is None:
        return least
    here = Counter((each.slice_index, each.coords) for each in devices)
    return max(least, here[device.slice_index, device.coords])
