"""The place of a device, as each platform reports it."""

from __future__ import annotations

import pytest

from jaxtop_agent.collectors.topology import describe


class Device:
    """A device with the attributes that a platform's client sets."""

    id, local_hardware_id = 5, 1

    def __init__(self, platform: str, kind: str, **attributes: object) -> None:
        self.platform, self.device_kind = platform, kind
        self.__dict__.update(attributes)


@pytest.mark.parametrize(
    ("device", "place"),
    [
        (Device("tpu", "TPU v4", coords=[1, 0, 3], core_on_chip=0, slice_index=2), ((1, 0, 3), 0, 2)),
        # openxla/xla, se_gpu_topology_description.cc: first slice_index alone, then both, then the new name.
        (Device("gpu", "NVIDIA H100 80GB HBM3", coords=[3], slice_index=1), ((3,), None, 1)),
        (
            Device("gpu", "NVIDIA GB200", coords=[0, 2, 3], slice_index=1, partition_index=1),
            ((0, 2, 3), None, 1),
        ),
        (Device("gpu", "NVIDIA GB200", coords=[0, 2, 3], partition_index=4), ((0, 2, 3), None, 4)),
        (Device("gpu", "gfx942:sramecc+:xnack-"), (None, None, None)),
        (Device("cpu", "cpu"), (None, None, None)),
    ],
)
def test_a_device_is_described_as_its_platform_reports_it(device, place):
    found = describe(device)
    assert (found.coords, found.core_on_chip, found.slice_index) == place
