"""The formatting of figures of devices and hosts, by unit, the same on all screens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model import DEVICE_FIGURES, HOST_FIGURES, STEP_FIGURES, Unit
from jaxtop.tui import text

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.model import Figure

FIGURES = {each.name: each for each in (*DEVICE_FIGURES, *HOST_FIGURES, *STEP_FIGURES)}
# Short names, for narrow columns.
_SHORT = {
    "utilization": "util",
    "tensor_activity": "tensor",
    "occupancy": "occup",
    "dram_activity": "dram",
    "memory_activity": "mem act",
    "temperature_c": "temp",
    "memory_clock_hz": "mem clk",
    "driver_used_bytes": "driver",
    "link_received_bytes_per_second": "link in",
    "link_sent_bytes_per_second": "link out",
    "pcie_received_bytes_per_second": "pcie in",
    "pcie_sent_bytes_per_second": "pcie out",
    "transfer_p50_s": "xfer p50",
    "transfer_p99_s": "xfer p99",
    "machine_cpu": "machine",
    "rss_bytes": "rss",
    "memory_used_bytes": "mem",
    "cpu_pressure": "cpu wait",
    "memory_pressure": "mem wait",
    "io_pressure": "io wait",
    "held_back": "held",
    "received_bytes_per_second": "net in",
    "sent_bytes_per_second": "net out",
    "process_read_bytes_per_second": "reads",
    "process_written_bytes_per_second": "writes",
    "step_time_s": "step",
    "steps_per_second": "steps/s",
}


def short(figure: Figure) -> str:
    """Return the name of a figure in at most eight characters."""
    return _SHORT.get(figure.name, figure.title)


def watts(value: float | None) -> str:
    return text.NA if value is None else f"{value:.0f}W"


def degrees(value: float | None) -> str:
    return text.NA if value is None else f"{value:.0f}°C"


def hertz(value: float | None) -> str:
    """Format the clock of a device: 1.98GHz, 345MHz."""
    if value is None:
        return text.NA
    return f"{value / 1e9:.2f}GHz" if value >= 999.5e6 else f"{value / 1e6:.0f}MHz"


def seconds(value: float | None) -> str:
    return text.micros(None if value is None else value * 1e6)


def joules(value: float | None) -> str:
    """Format an energy, from one token to one step: 958uJ, 1.2mJ, 35J, 1.2kJ."""
    if value is None:
        return text.NA
    for unit, scale in (("", 1.0), ("m", 1e-3)):
        if value >= scale:
            return f"{text.amount(value / scale)}{unit}J"
    return f"{value * 1e6:.0f}uJ"


def plain(value: float | None) -> str:
    """Format a number with its significant digits only: 12, 1.50, 1,234."""
    if value is None:
        return text.NA
    return text.number(value, 0 if value == int(value) or abs(value) >= 100 else 2)


_WRITERS: dict[Unit, Callable[[float | None], str]] = {
    Unit.BYTES: text.size,
    Unit.BYTES_PER_SECOND: text.bandwidth,
    Unit.SHARE: text.share,
    Unit.WATTS: watts,
    Unit.DEGREES: degrees,
    Unit.HERTZ: hertz,
    Unit.SECONDS: seconds,
    Unit.NUMBER: plain,
}


def writer(figure: Figure) -> Callable[[float | None], str]:
    """Return the formatter of this figure. It writes an unknown value as `n/a`."""
    return _WRITERS[figure.unit]
