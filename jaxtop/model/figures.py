"""The figures that a pulse carries for each device and each host, with names and units.

All code that shows, plots or exports figures uses these tables. A new figure is a column of the wire and a
line here. Counters are left out, because their rates are figures of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.wire import Pulse

    _Reader = Callable[[Pulse, int], float | None]


class Unit(StrEnum):
    """The unit of a figure after scaling."""

    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes per second"
    SHARE = "share"
    WATTS = "W"
    DEGREES = "°C"
    HERTZ = "Hz"
    SECONDS = "s"
    NUMBER = ""


@dataclass(frozen=True)
class Figure:
    """A figure of a device, or of a host, for which the position is ignored.

    `name` is its name in exports, `title` its name on screen. `full` reads the maximum of the figure.
    """

    name: str
    title: str
    unit: Unit
    read: _Reader
    full: _Reader = lambda _pulse, _position: None


def _column(field: str, scale: float = 1) -> _Reader:
    def read(pulse: Pulse, position: int) -> float | None:
        column = getattr(pulse.devices, field)
        value = column[position] if column is not None and position < len(column) else None
        return None if value is None else value * scale

    return read


def _of_host(field: str, scale: float = 1) -> _Reader:
    def read(pulse: Pulse, _position: int) -> float | None:
        value = getattr(pulse.host, field)
        return None if value is None else value * scale

    return read


def _rate(field: str, title: str, read: Callable[[str], _Reader]) -> Figure:
    return Figure(f"{field}econd", title, Unit.BYTES_PER_SECOND, read(field))


def _whole(_pulse: Pulse, _position: int) -> float:
    return 1.0


def _cores(pulse: Pulse, _position: int) -> float | None:
    return None if pulse.host.cores_milli is None else pulse.host.cores_milli / 1000


_MILLI, _MEGA, _MICRO = 1e-3, 1e6, 1e-6

DEVICE_FIGURES: tuple[Figure, ...] = (
    Figure("used_bytes", "memory", Unit.BYTES, _column("used_bytes"), _column("limit_bytes")),
    Figure("utilization", "utilisation", Unit.SHARE, _column("utilization_permille", _MILLI), _whole),
    Figure("tensor_activity", "tensor units", Unit.SHARE, _column("tensor_permille", _MILLI), _whole),
    Figure("occupancy", "occupancy", Unit.SHARE, _column("occupancy_permille", _MILLI), _whole),
    Figure("dram_activity", "DRAM bandwidth", Unit.SHARE, _column("dram_permille", _MILLI), _whole),
    Figure("memory_activity", "memory busy", Unit.SHARE, _column("memory_activity_permille", _MILLI), _whole),
    Figure("power_w", "power", Unit.WATTS, _column("power_mw", _MILLI), _column("power_limit_mw", _MILLI)),
    Figure(
        "temperature_c", "temperature", Unit.DEGREES, _column("temperature_c"), _column("temperature_limit_c")
    ),
    Figure("clock_hz", "clock", Unit.HERTZ, _column("clock_mhz", _MEGA), _column("clock_max_mhz", _MEGA)),
    Figure("memory_clock_hz", "memory clock", Unit.HERTZ, _column("memory_clock_mhz", _MEGA)),
    Figure(
        "driver_used_bytes",
        "driver's memory",
        Unit.BYTES,
        _column("driver_used_bytes"),
        _column("driver_total_bytes"),
    ),
    _rate("pcie_received_bytes_per_s", "PCIe in", _column),
    _rate("pcie_sent_bytes_per_s", "PCIe out", _column),
    _rate("link_received_bytes_per_s", "links in", _column),
    _rate("link_sent_bytes_per_s", "links out", _column),
    Figure("queued", "queued", Unit.NUMBER, _column("queued")),
    Figure("transfer_p50_s", "transfer p50", Unit.SECONDS, _column("transfer_p50_us", _MICRO)),
    Figure("transfer_p99_s", "transfer p99", Unit.SECONDS, _column("transfer_p99_us", _MICRO)),
)

HOST_FIGURES: tuple[Figure, ...] = (
    Figure("process_cpu_cores", "CPU", Unit.SHARE, _of_host("process_cpu_permille", _MILLI), _cores),
    Figure("machine_cpu", "machine's CPU", Unit.SHARE, _of_host("machine_cpu_permille", _MILLI), _whole),
    Figure("rss_bytes", "resident memory", Unit.BYTES, _of_host("rss_bytes"), _of_host("memory_total_bytes")),
    Figure(
        "memory_used_bytes",
        "machine's memory",
        Unit.BYTES,
        _of_host("memory_used_bytes"),
        _of_host("memory_total_bytes"),
    ),
    Figure("load", "load", Unit.NUMBER, _of_host("load_centi", 0.01), _cores),
    Figure("cpu_pressure", "CPU pressure", Unit.SHARE, _of_host("cpu_pressure_permille", _MILLI), _whole),
    Figure(
        "memory_pressure", "memory pressure", Unit.SHARE, _of_host("memory_pressure_permille", _MILLI), _whole
    ),
    Figure("io_pressure", "disk pressure", Unit.SHARE, _of_host("io_pressure_permille", _MILLI), _whole),
    Figure("held_back", "held back", Unit.SHARE, _of_host("held_back_permille", _MILLI), _whole),
    _rate("received_bytes_per_s", "network in", _of_host),
    _rate("sent_bytes_per_s", "network out", _of_host),
    _rate("disk_read_bytes_per_s", "disk in", _of_host),
    _rate("disk_written_bytes_per_s", "disk out", _of_host),
    _rate("process_read_bytes_per_s", "process reads", _of_host),
    _rate("process_written_bytes_per_s", "process writes", _of_host),
)
