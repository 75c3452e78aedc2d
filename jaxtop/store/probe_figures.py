"""Find the measured figures of devices and collectives in the last result of `jaxtop probe`."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from jaxtop.wire.probing import Probe, ProbedDevice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop import wire
    from jaxtop.wire.probing import ProbedCollective

__all__ = ["Probe", "ProbedDevice", "probed_collective", "probed_device", "probed_rates"]


def probed_device(probe: Probe, hostname: str, device: wire.Device) -> ProbedDevice | None:
    """Return the probe's result for a device, matched by its UUID, else by its number on its host."""
    for each in probe.devices:
        if device.uuid is not None and each.uuid is not None:
            if each.uuid == device.uuid:
                return each
        elif (each.hostname, each.platform, each.kind, each.local_id) == (
            hostname,
            device.platform,
            device.kind,
            device.local_id,
        ):
            return each
    return None


def median_rate(probed: Iterable[ProbedDevice], figure: str) -> float | None:
    """Return the median of a figure of these devices; None if it is known of none."""
    rates = [rate for each in probed if (rate := each.rate(figure))]
    return median(rates) if rates else None


def probed_rates(probe: Probe | None, hostname: str, device: wire.Device) -> dict[str, float]:
    """Return the probe's figures of a device by name; none if it was not probed."""
    found = None if probe is None else probed_device(probe, hostname, device)
    return {} if found is None else found.rates


def probed_collective(
    probe: Probe, platform: str, kind: str, device_ids: tuple[int, ...], size: int
) -> ProbedCollective | None:
    """Return the measurement nearest in size: among the same devices, else among as many devices."""
    alike = [
        each
        for each in probe.collectives
        if each.kind == kind and each.group_size == len(device_ids) and probe.platform == platform
    ]
    members = frozenset(device_ids)
    same = [each for each in alike if any(members == frozenset(group.device_ids) for group in each.groups)]
    ratios = [(max(each.bytes, size) / max(1, min(each.bytes, size)), each) for each in same or alike]
    return min(ratios, key=lambda pair: pair[0])[1] if ratios else None
