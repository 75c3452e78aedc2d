"""The figures of devices and hosts as metrics: each name ends in its unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.model import DEVICE_FIGURES, HOST_FIGURES, Figure, Unit, figure, scaled
from jaxtop.wire import SLOWED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop.model import DeviceView, StepView
    from jaxtop.wire import Pulse

# The ending of a figure's own name, and the unit that replaces it in the metric's name.
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


# Without the memory in use, whose metric also has a label for its source.
OF_DEVICES = tuple(_named(each, "device") for each in DEVICE_FIGURES if each.name != "used_bytes")
OF_HOSTS = tuple(_named(each, "machine") for each in HOST_FIGURES)


class OfStep(NamedTuple):
    """A figure of a host's step; JSON has times in milliseconds."""

    name: str
    metric: str
    help: str
    unit: str
    read: Callable[[StepView], float | None]

    @property
    def json_unit(self) -> int:
        return 1000 if self.unit == "seconds" else 1

    def in_json(self, step: StepView) -> float | None:
        value = self.read(step)
        return value if value is None or self.json_unit == 1 else round(value * self.json_unit, 6)


OF_STEPS = (
    OfStep("per_second", "step_rate", "Steps a second.", "", lambda of: of.per_second),
    OfStep("mean_ms", "step_mean_seconds", "Duration of a step, mean.", "seconds", lambda of: of.mean_s),
    OfStep("p50_ms", "step_p50_seconds", "Duration of a step, median.", "seconds", lambda of: of.p50_s),
    OfStep("p90_ms", "step_p90_seconds", "Duration of a step, 90 %.", "seconds", lambda of: of.p90_s),
    OfStep("p99_ms", "step_p99_seconds", "Duration of a step, 99 %.", "seconds", lambda of: of.p99_s),
    OfStep("jitter", "step_jitter_ratio", "What p90 has more than p50.", "ratio", lambda of: of.jitter),
    OfStep("idle", "step_idle_ratio", "Time in which no program ran.", "ratio", lambda of: of.idle),
    OfStep("launches_per_step", "step_launches", "Launches of a step.", "", lambda of: of.launches),
    OfStep("flops", "step_flops", "Operations of a step, at least.", "flops", lambda of: of.flops),
    OfStep(
        "flops_per_second",
        "step_flops_per_second",
        "Operations a second, at least.",
        "flops_per_second",
        lambda of: of.flops_per_second,
    ),
    OfStep(
        "utilization_of_peak",
        "step_utilization_ratio",
        "Operations, of the devices' peak: an estimate.",
        "ratio",
        lambda of: of.utilization,
    ),
    OfStep(
        "tokens_per_second",
        "tokens_per_second",
        "Tokens a second.",
        "tokens_per_second",
        lambda of: of.tokens_per_second,
    ),
    OfStep("joules_per_step", "step_joules", "Energy of a step.", "joules", lambda of: of.joules_per_step),
    OfStep(
        "joules_per_token", "token_joules", "Energy of a token.", "joules", lambda of: of.joules_per_token
    ),
)


class Fact(NamedTuple):
    """A value of a device beside its figures: a limit, or a counter since the driver started counting."""

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
    """Return for each reason to run slower whether it applies; empty where unknown."""
    bits = figure(view.pulse.devices.slowed, view.position)
    return {} if bits is None else {why: bits >> i & 1 for i, why in enumerate(SLOWED)}


def told(of: Figure, pulse: Pulse, position: int = 0) -> float | None:
    """Return the figure, rounded to remove the floating-point noise of its scaling."""
    value = of.read(pulse, position)
    return round(value, 9) if isinstance(value, float) else value


def of_device(view: DeviceView) -> dict[str, Any]:
    """Return all figures of a device, and the facts beside them; None for unknown ones."""
    reasons = slowed(view)
    return {
        **{each.name: told(each, view.pulse, view.position) for each in DEVICE_FIGURES},
        **{each.name: each.read(view) for each in FACTS},
        "slowed": [why for why, holds in reasons.items() if holds] if reasons else None,
    }


def of_machine(pulse: Pulse) -> dict[str, Any]:
    """Return all figures of a host, and its limits."""
    said = pulse.host
    is_told = said.cores_milli is not None
    return {
        **{each.name: told(each, pulse) for each in HOST_FIGURES},
        "cores": scaled(said.cores_milli, 1000),
        "is_container": said.is_container if is_told else None,
    }


def busy_threads(pulse: Pulse) -> list[dict[str, Any]] | None:
    """Return the busiest threads of the process, with Python's marked; None where not measured."""
    if pulse.host.cores_milli is None:
        return None
    return [
        {"name": each.name, "cpu_percent": scaled(each.cpu_permille, 10), "is_python": each.is_python}
        for each in pulse.host.busy_threads
    ]


def by_name(taken: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the CPU of threads, summed by name."""
    found: dict[str, float] = {}
    for name, cpu in taken:
        found[name] = found.get(name, 0) + cpu
    return found
