"""The peak performance of devices from vendors' data sheets, to compare with what a run achieves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.hardware.chips import chip_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.wire import Device, Hello

SET_BY_OWNER = "JAXTOP_PEAK_FLOPS"


class ChipPeak(NamedTuple):
    """Operations a second that a device can do, the source of the figure, and its memory's bytes a second.

    The bytes are always the vendor's figure; None where it gives none.
    """

    flops: float
    source: str
    bytes: float | None = None


def peak_of(hello: Hello, device: Device) -> ChipPeak | None:
    """Return the peak of a device; None if unknown. A value that the run's owner sets overrides the table."""
    published = _published(hello, device)
    if hello.peak_flops is None:
        return published
    return ChipPeak(hello.peak_flops, SET_BY_OWNER, None if published is None else published.bytes)


def _published(hello: Hello, device: Device) -> ChipPeak | None:
    chip = chip_of(device.kind)
    if chip is None:
        return None
    here = max(chip.cores, _devices_on_chip(hello.devices, device))
    bandwidth = None if chip.bandwidth is None else chip.bandwidth * 1e9 / here
    return ChipPeak(chip.half * 1e12 / here, chip.maker, bandwidth)


def _devices_on_chip(devices: Sequence[Device], device: Device) -> int:
    """Return the devices of a process on a TPU's chip: devices that are cores share coordinates."""
    if device.platform != "tpu" or device.coords is None:
        return 1
    return sum((each.slice_index, each.coords) == (device.slice_index, device.coords) for each in devices)
