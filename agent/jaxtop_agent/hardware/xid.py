"""XIDs: the numbered errors of NVIDIA's driver, as events."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop_agent.hardware.mapping import DeviceHandle
    from jaxtop_agent.hardware.reader import Report

# Short descriptions from NVIDIA's catalogue:
# https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
WORDS = {
    8: "GPU stopped processing",
    13: "graphics engine exception: often an index out of bounds in a kernel",
    31: "memory page fault: an illegal address in a kernel",
    32: "invalid or corrupted push buffer stream",
    38: "driver firmware error",
    43: "GPU stopped processing: the application's fault, the GPU stays usable",
    45: "work was removed because of earlier errors, or the application ended",
    46: "GPU stopped processing",
    48: "double bit ECC error",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    63: "a row of memory is being remapped",
    64: "a row of memory could not be remapped",
    68: "video processor exception",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "many single bit ECC errors",
    94: "contained memory error: the application that met it has to end",
    95: "uncontained memory error: the GPU needs a reset",
    109: "context switch timed out",
    119: "the GPU's system processor does not answer",
    120: "error of the GPU's system processor",
    121: "corrected errors of the link between GPU and CPU",
    140: "unrecovered ECC error",
    143: "the GPU could not be initialised",
    144: "NVLink error",
    145: "NVLink error",
    149: "NVLink error",
    154: "the GPU wants to be recovered",
}
# The driver's own actions, and the consequences of a process that ended.
MILD = frozenset({45, 63, 121})
# The most XIDs in one turn; the rest follows in the next.
AT_ONCE = 16


class Xids:
    """Listens for the XIDs of GPUs; GPUs that do not support this are skipped."""

    def __init__(self, nvml: Any, gpus: Mapping[int, DeviceHandle], report: Report) -> None:
        self._nvml = nvml
        self._gpus = gpus  # by the handle's address
        self._report = report
        self._set: Any = nvml.nvmlEventSetCreate()
        self._refused = False
        for gpu in gpus.values():
            try:
                nvml.nvmlDeviceRegisterEvents(gpu.handle, nvml.nvmlEventTypeXidCriticalError, self._set)
            except nvml.NVMLError:
                self._refused = True
        self.is_deaf = self._refused  # to at least one of them

    def report_new(self, when: str) -> None:
        """Report the XIDs since the previous call, without waiting; `when` says when they came."""
        for _ in range(AT_ONCE):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._set, 0)
            except self._nvml.NVMLError as error:  # a timeout means that there are no more
                # While one GPU is lost, NVML reports no XIDs of the others.
                self.is_deaf = self._refused or error.value != self._nvml.NVML_ERROR_TIMEOUT
                return
            if event.eventType == self._nvml.nvmlEventTypeXidCriticalError:
                number = int(event.eventData)
                gpu = self._gpus.get(address(event.device))
                title = "a GPU" if gpu is None else gpu.title
                words = WORDS.get(number)
                severity = "warning" if number in MILD else "critical"
                self._report(
                    severity, "xid", f"XID {number} on {title}{when}" + (f": {words}" if words else "")
                )

    def close(self) -> None:
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlEventSetFree(self._set)


def address(handle: Any) -> int:
    """Return a number that identifies a handle."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
