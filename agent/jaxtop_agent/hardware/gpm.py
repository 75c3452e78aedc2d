"""GPM, on Hopper and later: the activity of a GPU between two samples of its counters."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop_agent.hardware.reader import Figures

MIB = 1 << 20
# Column: the metric, and the factor that converts its value to an integer in the column's unit. Shares are in
# percent, traffic is in MiB per second.
METRICS: Mapping[str, tuple[str, float]] = {
    "occupancy_permille": ("NVML_GPM_METRIC_SM_OCCUPANCY", 10),
    "tensor_permille": ("NVML_GPM_METRIC_ANY_TENSOR_UTIL", 10),
    "dram_permille": ("NVML_GPM_METRIC_DRAM_BW_UTIL", 10),
    "pcie_sent_bytes_per_s": ("NVML_GPM_METRIC_PCIE_TX_PER_SEC", MIB),
    "pcie_received_bytes_per_s": ("NVML_GPM_METRIC_PCIE_RX_PER_SEC", MIB),
    "link_sent_bytes_per_s": ("NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", MIB),
    "link_received_bytes_per_s": ("NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", MIB),
}
# The columns of a MIG instance: traffic is known only for the whole GPU.
OF_INSTANCES = ("occupancy_permille", "tensor_permille", "dram_permille")


class Gpm:
    """Two samples of one GPU or of one MIG instance, used in turn."""

    def __init__(self, nvml: Any, handle: Any, instance: int | None) -> None:
        """Take the first sample; raise NVMLError, and free everything, if the driver refuses."""
        self._nvml = nvml
        self._handle = handle
        self._instance = instance
        if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
        self._columns = tuple(METRICS) if instance is None else OF_INSTANCES
        # Allocated once: it takes 20 kB, mostly for metrics that we do not request.
        self._request = nvml.c_nvmlGpmMetricsGet_t()
        self._request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = len(self._columns)
        for place, column in enumerate(self._columns):
            self._request.metrics[place].metricId = getattr(nvml, METRICS[column][0])
        self._samples = [nvml.nvmlGpmSampleAlloc()]
        try:
            self._samples.append(nvml.nvmlGpmSampleAlloc())
            self._sample(self._samples[0])
        except nvml.NVMLError:
            self.close()
            raise

    def _sample(self, into: Any) -> None:
        if self._instance is None:
            self._nvml.nvmlGpmSampleGet(self._handle, into)
        else:
            self._nvml.nvmlGpmMigSampleGet(self._handle, self._instance, into)

    def read(self) -> Figures:
        before, after = self._samples
        self._sample(after)
        self._samples = [after, before]
        self._request.sample1, self._request.sample2 = before, after
        self._nvml.nvmlGpmMetricsGet(self._request)
        found: Figures = {}
        for place, column in enumerate(self._columns):
            metric = self._request.metrics[place]
            if metric.nvmlReturn == self._nvml.NVML_SUCCESS and 0 <= metric.value < inf:  # also excludes NaN
                found[column] = round(metric.value * METRICS[column][1])
        return found

    def close(self) -> None:
        while self._samples:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlGpmSampleFree(self._samples.pop())
