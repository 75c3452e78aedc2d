"""The figures of a device that a probe measures."""

from __future__ import annotations

from typing import NamedTuple

from jaxtop.wire.probing import MATRIX_RATE, MEMORY_RATE


class ProbeFigure(NamedTuple):
    """A figure of a device: its title and unit, and how far below its peers a slow device is."""

    title: str
    unit: str
    scale: float
    tolerance: float

    def speed(self, value: float) -> float:
        """Return the figure so that more is better, even where it is a time."""
        return 1 / max(value, 1e-9) if self.unit == "µs" else value


# Launches and transfers have a larger tolerance: they depend on the host's load and on the device's slot.
FIGURES: dict[str, ProbeFigure] = {
    MEMORY_RATE: ProbeFigure("memory", "GB/s", 1e9, 0.15),
    MATRIX_RATE: ProbeFigure("matrix rate", "TFLOP/s", 1e12, 0.15),
    "together_flops_per_s": ProbeFigure("matrix rate together", "TFLOP/s", 1e12, 0.15),
    "enqueue_s": ProbeFigure("enqueue", "µs", 1e-6, 0.6),
    "round_trip_s": ProbeFigure("round trip", "µs", 1e-6, 0.6),
    "to_device_bytes_per_s": ProbeFigure("to device", "GB/s", 1e9, 0.3),
    "from_device_bytes_per_s": ProbeFigure("from device", "GB/s", 1e9, 0.3),
}
