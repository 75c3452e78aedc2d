"""The peak rates of the devices of a process: as a probe measured them, else as they are published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.features.operations.model import DeviceRates, program_times
from jaxtop.model.hardware.peaks import SET_BY_OWNER, peak_of
from jaxtop.store.probe_figures import median_rate, probed_device
from jaxtop.wire.probing import MATRIX_RATE, MEMORY_RATE

if TYPE_CHECKING:
    from jaxtop.features.operations.model import ProgramTime
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState
    from jaxtop.store.probe_figures import Probe

PROBED, DATA_SHEET = "probed", "the maker's data sheet"


def times_by_rates(cluster: ClusterState, now: float, probe: Probe | None) -> list[ProgramTime]:
    """Return where the time of each program goes, and what bounds it at the rates of its devices."""
    return program_times(cluster, now, lambda host: rates_of(host, probe), basis=probe)


def rates_of(host: Host, probe: Probe | None) -> DeviceRates:
    """Return the rates of a process's devices: the median of what was probed, else the published ones."""
    hello = host.hello
    if hello is None or not hello.devices:
        return DeviceRates()
    probed = (
        []
        if probe is None
        else [
            found
            for each in hello.devices
            if (found := probed_device(probe, hello.hostname, each)) is not None
        ]
    )
    flops, touched = median_rate(probed, MATRIX_RATE), median_rate(probed, MEMORY_RATE)
    peak = peak_of(hello, hello.devices[0])
    rates = DeviceRates()
    if peak is not None:
        of_memory = DATA_SHEET if peak.source == SET_BY_OWNER else peak.source
        rates = DeviceRates(peak.flops, peak.bytes, peak.source, of_memory if peak.bytes else "")
    if flops:
        rates = rates._replace(flops=flops, flops_source=PROBED)
    if touched:
        rates = rates._replace(bytes=touched, bytes_source=PROBED)
    return rates
