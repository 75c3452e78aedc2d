"""The arrays that hold memory at the peak of a program or a device, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop.base.times import timestamp
from jaxtop.export.readings import fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop import wire
    from jaxtop.model import ArraysAtPeak, DevicePeak, MemoryView

_OF_PEAK = (
    "argument_bytes", "result_bytes", "constant_bytes", "temporary_bytes", "alive_bytes", "op", "source",
    "rest", "rest_bytes",
)  # fmt: skip


def as_value(peak: wire.Peak) -> dict[str, Any]:
    """Return what holds memory at the peak of a program; no figures where they are not known."""
    unknown = peak.why_not
    return {
        "at": timestamp(peak.at_ms / 1000),
        **(dict.fromkeys(_OF_PEAK) if unknown else fields(peak, _OF_PEAK)),
        "buffers": None if unknown else [msgspec.structs.asdict(each) for each in peak.buffers],
        "note": peak.note or None,
        "why_not": unknown or None,
    }


def of_device(peak: DevicePeak | None) -> dict[str, Any] | None:
    """Return the last rise of a device's peak; its arrays are in `of_arrays`, which devices share."""
    if peak is None:
        return None
    return {
        "peak_bytes": peak.peak_bytes,
        "at": _time(peak.at_ms),
        "census_at": _time(peak.census_ms),
        "array_bytes": peak.array_bytes,
        "other_bytes": peak.other_bytes,
        "why_not": peak.why_not or None,
    }


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else timestamp(at_ms / 1000)


def of_arrays(peaks: Sequence[DevicePeak | None], devices: Sequence[MemoryView]) -> list[dict[str, Any]]:
    """Return the arrays that were alive at the peaks of these devices, once for those that held the same."""
    holders: dict[tuple[int | None, tuple[ArraysAtPeak, ...]], list[tuple[int, DevicePeak]]] = {}
    for view in devices:
        peak = peak_of(peaks, view)
        if peak is not None and peak.array_bytes is not None:
            holders.setdefault((peak.census_ms, peak.arrays), []).append((view.device.id, peak))
    return [
        {
            "device_ids": [device_id for device_id, _ in found],
            "census_at": _time(census_ms),
            "arrays": [_array(each) for each in arrays],
            "rest": found[0][1].rest,
            "rest_bytes": found[0][1].rest_bytes,
        }
        for (census_ms, arrays), found in holders.items()
    ]


def peak_of(peaks: Sequence[DevicePeak | None], view: MemoryView) -> DevicePeak | None:
    """Return the peak of one device; None where it has none, or no longer."""
    device = view.device
    is_there = device.peak_bytes is not None and device.position < len(peaks)
    return peaks[device.position] if is_there else None


_OF_HELD = ("name", "function", "role", "created", "groups", "shape", "dtype", "sharding", "count", "bytes")


def _array(held: ArraysAtPeak) -> dict[str, Any]:
    return {**fields(held, _OF_HELD), "age_s": held.age_s, "alive": held.is_alive}
