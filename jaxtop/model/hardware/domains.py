"""The domains of fast links: a slice of TPUs (ICI), GPUs that NVLink joins, else the devices of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtop import wire
    from jaxtop.model.host import Host

Domain = tuple[str, int | str]


def domain_of(host: Host, device: wire.Device) -> Domain:
    """Return the set of devices that fast links join with this one.

    The hosts of a slice of TPUs share its links; only slices are joined by the data-centre network. On GPUs
    the slice index is XLA's partition: processes with one boot id, or GPUs in one NVLink fabric, such as a
    rack of GB200 (`BuildDistributedDevices` in openxla/xla, `xla/pjrt/gpu/se_gpu_pjrt_client.cc`).
    """
    if device.platform == "tpu":
        return "slice", device.slice_index or 0
    if device.platform == "gpu" and device.slice_index is not None:
        return "slice", device.slice_index
    return "process", host.agent


def name_of_domains(platform: str) -> str:
    """Return what such sets are called: the network lies between them."""
    return "slices" if platform == "tpu" else "hosts"
