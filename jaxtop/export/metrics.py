"""The figures of devices and hosts as metric collectors want them: a name that ends in its unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.cluster import DEVICE_FIGURES, HOST_FIGURES, Figure, Unit, figure, scaled
from jaxtop.wire import SLOWED

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.cluster import DeviceView
    from jaxtop.wire import Pulse

# How a figure's own name ends, and what a metric's ends in instead.
_ENDINGS = {
    Unit.BYTES: ("_bytes", "bytes"),
    Unit.BYTES_PER_SECOND: ("_bytes_per_second", "bytes_per_second"),
    Unit.SHARE: ("", "ratio"),
    Unit.WATTS: ("_w", "watts"),
    Unit.DEGREES: ("_c", "celsius"),
    Unit.HERTZ: ("_hz", "hertz"),
    Unit.SECONDS: ("_s", "seconds"),
    Unit.NUMBER: ("", ""),
}
_RENAMED = {"process_cpu_cores": "process_cpu", "rss_bytes": "process_resident_bytes"}
_OWN_SUBJECT = ("process_", "machine_")


class Named(NamedTuple):
    """A figure with the name, the help and the unit of its metric."""

    metric: str
    help: str
    unit: str
    figure: Figure


def _named(of: Figure, subject: str) -> Named:
    name = _RENAMED.get(of.name, of.name)
    ending, unit = _ENDINGS[of.unit]
    stem = name.removesuffix(ending)
    if not stem.startswith(_OWN_SUBJECT):
        stem = f"{subject}_{stem}"
    about = of.title[0].upper() + of.title[1:]
    return Named(f"{stem}_{unit}" if unit else stem, f"{about}.", unit, of)


# Without the memory in use, of which metrics also tell where the figure comes from.
OF_DEVICES = tuple(_named(each, "device") for each in DEVICE_FIGURES if each.name != "used_bytes")
OF_HOSTS = tuple(_named(each, "machine") for each in HOST_FIGURES)


class Fact(NamedTuple):
    """What is told of a device beside its figures: limits, and counters since the driver began to count."""

    name: str
    metric: str
    help: str
    unit: str
    kind: str
    read: Callable[[DeviceView], float | None]


def _of(column: str, unit: int = 1) -> Callable[[DeviceView], float | None]:
    def read(view: DeviceView) -> float | None:
        value = figure(getattr(view.pulse.devices, column), view.position)
        return value if unit == 1 else scaled(value, unit)

    return read


FACTS = (
    Fact(
        "power_limit_w",
        "device_power_limit_watts",
        "What it may draw.",
        "watts",
        "gauge",
        _of("power_limit_mw", 1000),
    ),
    Fact(
        "temperature_limit_c",
        "device_temperature_limit_celsius",
        "Where it slows down.",
        "celsius",
        "gauge",
        _of("temperature_limit_c"),
    ),
    Fact(
        "driver_total_bytes",
        "device_driver_total_bytes",
        "All memory, by the driver.",
        "bytes",
        "gauge",
        _of("driver_total_bytes"),
    ),
    Fact("energy_j", "device_energy_joules", "Energy taken.", "joules", "counter", _of("energy_mj", 1000)),
    Fact(
        "ecc_corrected",
        "device_ecc_corrected",
        "Memory errors that were corrected.",
        "",
        "counter",
        _of("ecc_corrected"),
    ),
    Fact(
        "ecc_uncorrected",
        "device_ecc_uncorrected",
        "Memory errors that were not.",
        "",
        "counter",
        _of("ecc_uncorrected"),
    ),
)


def slowed(view: DeviceView) -> dict[str, int]:
    """Of each reason to run slower than it could, whether it holds; nothing where nobody knows."""
    bits = figure(view.pulse.devices.slowed, view.position)
    return {} if bits is None else {why: bits >> i & 1 for i, why in enumerate(SLOWED)}


def told(of: Figure, pulse: Pulse, position: int = 0) -> float | None:
    """The figure without the last bits of its scaling."""
    value = of.read(pulse, position)
    return round(value, 9) if isinstance(value, float) else value


def of_device(view: DeviceView) -> dict[str, Any]:
    """All figures of a device, and the facts beside them; null what nobody knows."""
    reasons = slowed(view)
    return {
        **{each.name: told(each, view.pulse, view.position) for each in DEVICE_FIGURES},
        **{each.name: each.read(view) for each in FACTS},
        "slowed": [why for why, holds in reasons.items() if holds] if reasons else None,
    }


def of_machine(pulse: Pulse) -> dict[str, Any]:
    """All figures of a host, and what it may use."""
    said = pulse.host
    is_told = said.cores_milli is not None
    return {
        **{each.name: told(each, pulse) for each in HOST_FIGURES},
        "cores": scaled(said.cores_milli, 1000),
        "is_container": said.is_container if is_told else None,
    }


def busy_threads(pulse: Pulse) -> list[dict[str, Any]] | None:
    """The busiest threads of the process, those of Python marked; None where nobody looked."""
    if pulse.host.cores_milli is None:
        return None
    return [
        {"name": each.name, "cpu_percent": scaled(each.cpu_permille, 10), "is_python": each.is_python}
        for each in pulse.host.busy_threads
    ]


def by_thread(pulse: Pulse) -> dict[str, float]:
    """The cores that the busiest threads take; those of one name together."""
    taken: dict[str, float] = {}
    for each in pulse.host.busy_threads:
        taken[each.name] = taken.get(each.name, 0) + each.cpu_permille / 1000
    return taken
