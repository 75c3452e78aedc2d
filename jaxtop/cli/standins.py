"""The readers and figures that no real device has met: `jaxtop doctor` and docs/hardware.md list them."""

from __future__ import annotations

from typing import NamedTuple


class StandIn(NamedTuple):
    """Figures, what reads them, and the stand-in that the reader was tested with."""

    figures: str
    reader: str
    tested_with: str

    @property
    def words(self) -> str:
        return f"{self.figures} ({self.reader}): not tested on a real device, only with {self.tested_with}"


_NVML = "a library with NVML's interface"
_TRACES = "traces made by the tests in the profiler's format"

# A row is removed once a real reading is kept as test data.
STAND_INS = (
    StandIn("figures of NVIDIA GPUs", "NVML", _NVML),
    StandIn("MIG instances", "NVML", _NVML),
    StandIn("XIDs and lost GPUs", "NVML", _NVML),
    StandIn("figures of AMD GPUs", "`/sys`", "a folder with the driver's files"),
    StandIn("figures of TPUs", "the metric service", "a server that speaks its protocol"),
    StandIn("collectives on GPUs", "JAX's profiler", _TRACES),
    StandIn("collectives on TPUs", "JAX's profiler", _TRACES),
    StandIn(
        "memory of GPUs and TPUs",
        "JAX's allocators",
        "made-up figures under the names that the allocators use",
    ),
)
