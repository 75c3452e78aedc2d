"""Stands in for AMD's amdsmi: the functions of its documentation that are read, for GPUs that tests describe.

https://rocm.docs.amd.com/projects/amdsmi/en/latest/reference/amdsmi-py-api.html
"""

from __future__ import annotations

from enum import IntEnum


class AmdSmiException(Exception):
    pass


class AmdSmiRetCode(IntEnum):
    SUCCESS = 0
    NOT_SUPPORTED = 2
    BUSY = 30
    NO_PERM = 10


class AmdSmiLibraryException(AmdSmiException):
    def __init__(self, code):
        super().__init__(f"Error code:\n\t{code} | AMDSMI_STATUS")
        self.err_code = code


AmdSmiTemperatureType = IntEnum("AmdSmiTemperatureType", ["EDGE", "HOTSPOT", "VRAM"])
AmdSmiTemperatureMetric = IntEnum("AmdSmiTemperatureMetric", ["CURRENT", "CRITICAL"])
AmdSmiClkType = IntEnum("AmdSmiClkType", ["SYS", "GFX", "MEM"])
AmdSmiMemoryType = IntEnum("AmdSmiMemoryType", ["VRAM", "GTT"])

MI300X = {
    "activity": {"gfx_activity": 88, "umc_activity": 30, "mm_activity": "N/A"},
    "used": 100 << 30,
    "total": 192 << 30,
    "power": {"socket_power": "N/A", "current_socket_power": 612, "average_socket_power": "N/A"},
    "cap": {"power_cap": 750_000_000},
    "energy": {"energy_accumulator": 2_000_000, "counter_resolution": 15.3},
    "heat": {1: 71, 2: 100},
    "clocks": {
        AmdSmiClkType.GFX: {"clk": 2100, "max_clk": 2100},
        AmdSmiClkType.MEM: {"clk": 1300, "max_clk": 1300},
    },
    "errors": {"correctable_count": 4, "uncorrectable_count": 1},
    "metrics": {"xgmi_read_data_acc": [1000, 2000, "N/A"], "xgmi_write_data_acc": [10, 0, "N/A"]},
}
# What tests set: the GPUs in the driver's order, and what stands against it all.
gpus: list[dict] = []
refusal: list[int] = []
calls: list[str] = []


def _said(name):
    def ask(handle, *_):
        calls.append(name)
        value = handle[name]
        if isinstance(value, AmdSmiRetCode):
            raise AmdSmiLibraryException(value)
        return value

    return ask


def amdsmi_init():
    if refusal:
        raise AmdSmiLibraryException(refusal[0])


def amdsmi_shut_down():
    calls.append("shut down")


def amdsmi_get_processor_handles():
    return gpus


def amdsmi_get_temp_metric(handle, sensor, metric):
    if sensor != AmdSmiTemperatureType.HOTSPOT:
        raise AmdSmiLibraryException(AmdSmiRetCode.NOT_SUPPORTED)
    return _said("heat")(handle)[metric]


def amdsmi_get_clock_info(handle, kind):
    return _said("clocks")(handle)[kind]


amdsmi_get_gpu_activity = _said("activity")
amdsmi_get_gpu_memory_usage = _said("used")
amdsmi_get_gpu_memory_total = _said("total")
amdsmi_get_power_info = _said("power")
amdsmi_get_power_cap_info = _said("cap")
amdsmi_get_energy_count = _said("energy")
amdsmi_get_gpu_total_ecc_count = _said("errors")
amdsmi_get_gpu_metrics_info = _said("metrics")
amdsmi_get_gpu_enumeration_info = _said("enumeration")
amdsmi_get_gpu_kfd_info = _said("kfd")
amdsmi_get_gpu_device_uuid = _said("uuid")
