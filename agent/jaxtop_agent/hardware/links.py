"""NVLink and PCIe traffic: from counters, or from samples where there are no counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jaxtop_agent.hardware.reader import Figures

KIB = 1024
# The sum over all links of a GPU; a field without this scope means the first link only.
ALL_LINKS = 0xFFFFFFFF
LINK_COLUMNS = ("link_sent_bytes_per_s", "link_received_bytes_per_s")
PCIE_COLUMNS = ("pcie_sent_bytes_per_s", "pcie_received_bytes_per_s")


class _Count(NamedTuple):
    at_us: int
    value: int


class Counters:
    """The previous values of the counters of one GPU, by column."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._last: dict[str, _Count] = {}

    def links(self, handle: Any) -> Figures:
        """Return the NVLink rates; the counters are in KiB and exclude protocol overhead."""
        nvml = self._nvml
        fields = (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX)
        values = nvml.nvmlDeviceGetFieldValues(handle, [(field, ALL_LINKS) for field in fields])
        return self._rates(LINK_COLUMNS, values, KIB)

    def pcie(self, handle: Any) -> Figures:
        """Return the PCIe rates from byte counters if they have 64 bits, else from two samples of 20 ms each.

        The samples block this thread. A counter of 32 bits overflows in a tenth of a second on a fast bus, so
        no rate follows from it. Drivers return some of these as 64 bits (nvml.h: "Value can be wrapped"), so
        we trust a counter only once it exceeds 32 bits.
        """
        nvml = self._nvml
        fields = [nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES]
        wide = (nvml.NVML_VALUE_TYPE_UNSIGNED_LONG, nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)
        try:
            values = nvml.nvmlDeviceGetFieldValues(handle, fields)
            if all(
                each.nvmlReturn == nvml.NVML_SUCCESS and each.valueType in wide and each.value.ullVal >> 32
                for each in values
            ):
                return self._rates(PCIE_COLUMNS, values, 1)
        except nvml.NVMLError as error:
            if error.value not in {nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND}:
                raise
        directions = (nvml.NVML_PCIE_UTIL_TX_BYTES, nvml.NVML_PCIE_UTIL_RX_BYTES)
        return {
            column: nvml.nvmlDeviceGetPcieThroughput(handle, direction) * KIB
            for column, direction in zip(PCIE_COLUMNS, directions, strict=True)
        }

    def _rates(self, columns: tuple[str, ...], values: Any, unit: int) -> Figures:
        found: Figures = {}
        for column, each in zip(columns, values, strict=True):
            if each.nvmlReturn != self._nvml.NVML_SUCCESS:
                raise self._nvml.NVMLError(each.nvmlReturn)
            now = _Count(int(each.timestamp), int(each.value.ullVal))
            before = self._last.get(column)
            self._last[column] = now
            # The driver resets counters when it restarts: a counter that decreased gives no rate.
            if before is not None and now.at_us > before.at_us and now.value >= before.value:
                found[column] = round((now.value - before.value) * unit * 1e6 / (now.at_us - before.at_us))
        return found
