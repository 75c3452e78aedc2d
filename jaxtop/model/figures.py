"""The table of figures: each figure of a device, a host or a step is declared here, once.

Columns, filters, mesh metrics, plots, thresholds, exports and `docs/figures.md` are generated from it. A new
figure is a field of the wire, which a collector fills, and a row of this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING

from jaxtop.model.thresholds import Level, Threshold

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.wire import Pulse

    Reader = Callable[[Pulse, int], float | None]


class Unit(StrEnum):
    """The base unit of a figure, as the names of metrics spell it."""

    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes_per_second"
    SHARE = "ratio"
    WATTS = "watts"
    JOULES = "joules"
    DEGREES = "celsius"
    HERTZ = "hertz"
    SECONDS = "seconds"
    FLOPS = "flops"
    FLOPS_PER_SECOND = "flops_per_second"
    TOKENS_PER_SECOND = "tokens_per_second"
    NUMBER = ""


class Scope(StrEnum):
    """What a figure belongs to."""

    DEVICE = "device"
    HOST = "host"
    STEP = "step"


# The rank of most figures; those that people look for first have a lower one.
USUAL = 5


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure: what it is called, how it is read, and where it is shown.

    `name` is its name in JSON and CSV; `metric` that in OpenMetrics, without the prefix `jaxtop_`, or empty
    if it is not exported. `field` is the field of `DeviceSample`, `HostSample` or `StepView` that holds it.

    Columns stand in the order of `rank`, then of the table. `pane` is the line of a host's figure in the pane
    below the hosts, and its label there: by default a line at the end; none if the line is 0. `json` is the
    object that holds it in the JSON of a device, if it is not the device itself.
    """

    scope: Scope
    name: str
    title: str
    unit: Unit
    field: str
    metric: str
    source: str
    help: str
    # By default the title. It has at most eight characters.
    short_title: str = ""
    # A field of the same sample, or a number. By default 1 for shares.
    maximum: str | float | None = None
    thresholds: tuple[Threshold, ...] = ()
    aliases: tuple[str, ...] = ()
    json: str = ""
    rank: int = USUAL
    pane: tuple[int, str] | None = None
    # False: it is exported, but has no column and, unless it belongs to a step, no plot.
    has_column: bool = True
    # The field of `Rhythm` from which a plot of a step's figure is made.
    rhythm: str = ""
    is_counter: bool = False
    is_estimate: bool = False
    # Whether it is a lower bound if the operations of the step are.
    is_of_operations: bool = False

    @property
    def short(self) -> str:
        return self.short_title or self.title

    @property
    def has_history(self) -> bool:
        """Whether it has a plot and, if it belongs to devices, a metric of the mesh."""
        return bool(self.rhythm) if self.scope is Scope.STEP else self.has_column

    @property
    def filters(self) -> tuple[str, ...]:
        """The names that filters accept: its aliases and, if it has a column, its names."""
        names = (self.name, self.short, self.title) if self.has_column else ()
        return tuple(dict.fromkeys((*(name.lower().replace(" ", "_") for name in names), *self.aliases)))

    @cached_property
    def read(self) -> Reader:
        """The function that reads it from a pulse, in the base unit; the second argument is a position."""
        return _reader(self.scope, self.rhythm if self.scope is Scope.STEP else self.field)

    @cached_property
    def full(self) -> Reader:
        """The function that reads its maximum from a pulse; None if it has none or it is unknown."""
        maximum = 1.0 if self.maximum is None and self.unit is Unit.SHARE else self.maximum
        return _reader(self.scope, maximum) if isinstance(maximum, str) else lambda _pulse, _position: maximum

    def of_step(self, step: object) -> float | None:
        """Return its value in a `StepView`."""
        value: float | None = getattr(step, self.field)
        return value

    def reached(self, pulse: Pulse, position: int = 0) -> Threshold | None:
        """Return the most severe threshold that it has reached in a pulse, if any."""
        if not self.thresholds:
            return None
        return self.judged(self.read(pulse, position), self.full(pulse, position))

    def judged(self, value: float | None, full: float | None = None) -> Threshold | None:
        """Return the most severe threshold that this value has reached, if any."""
        found = [each for each in self.thresholds if each.is_reached(value, full)]
        return max(found, key=lambda each: each.level, default=None)


# So many of the unit that a field's name contains make one base unit.
_PER_BASE_UNIT = {"permille": 1000, "milli": 1000, "mw": 1000, "mj": 1000, "centi": 100, "us": 1_000_000}


def _scaled(field: str) -> Callable[[float], float]:
    """Return the conversion of a field to its base unit."""
    parts = field.split("_")
    if "mhz" in parts:
        return lambda value: value * 1e6
    per = next((_PER_BASE_UNIT[part] for part in parts if part in _PER_BASE_UNIT), None)
    return (lambda value: value) if per is None else (lambda value: value / per)


def _reader(scope: Scope, field: str) -> Reader:
    scaled = _scaled(field)

    def of_device(pulse: Pulse, position: int) -> float | None:
        column = getattr(pulse.devices, field)
        value = column[position] if column is not None and position < len(column) else None
        return None if value is None else scaled(value)

    def of_host(pulse: Pulse, _position: int) -> float | None:
        value = getattr(pulse.host, field)
        return None if value is None else scaled(value)

    def of_step(pulse: Pulse, _position: int) -> float | None:
        value = getattr(pulse.rhythm, field, None)
        return None if value is None else scaled(value)

    return {Scope.DEVICE: of_device, Scope.HOST: of_host, Scope.STEP: of_step}[scope]


_device, _host, _step = (
    partial(Figure, Scope.DEVICE),
    partial(Figure, Scope.HOST),
    partial(Figure, Scope.STEP),
)
# Without a column: limits and counters, and what screens show in their own way.
_of_device, _of_host = partial(_device, has_column=False), partial(_host, has_column=False)
_of_step = partial(_step, has_column=False)
ALLOCATOR = "allocator"
_DRIVER, _KERNEL, _STEPS = "driver", "kernel", "launches"
_ESTIMATE = "compiled programs, launches"
_WARNING, _BAD = Level.WARNING, Level.BAD

_TABLE: tuple[Figure, ...] = (
    # Devices
    _device(
        "used_bytes", "memory", Unit.BYTES, "used_bytes", "device_memory_used_bytes", ALLOCATOR,
        "Memory in use, by the allocator; where there is none, by the live arrays.",
        maximum="limit_bytes", thresholds=(
            Threshold(0.9, _WARNING, "nearly full", "what a step needs for a moment may not fit any more",
                      is_of_full=True),
        ),
    ),
    _device(
        "utilization", "utilisation", Unit.SHARE, "utilization_permille", "device_utilization_ratio", _DRIVER,
        "Time in which the device computed.", short_title="util", rank=1,
    ),
    _device(
        "tensor_activity", "tensor units", Unit.SHARE, "tensor_permille", "device_tensor_activity_ratio",
        _DRIVER, "Use of the matrix units.", short_title="tensor", rank=2,
    ),
    _device(
        "occupancy", "occupancy", Unit.SHARE, "occupancy_permille", "device_occupancy_ratio", _DRIVER,
        "Use of the slots for warps.", short_title="occup",
    ),
    _device(
        "dram_activity", "DRAM bandwidth", Unit.SHARE, "dram_permille", "device_dram_activity_ratio", _DRIVER,
        "Use of the bandwidth of the device's memory.", short_title="dram", rank=2,
    ),
    _device(
        "memory_activity", "memory busy", Unit.SHARE, "memory_activity_permille",
        "device_memory_activity_ratio", _DRIVER,
        "Time in which the device's memory was read or written.", short_title="mem act",
    ),
    _device(
        "power_w", "power", Unit.WATTS, "power_mw", "device_power_watts", _DRIVER,
        "Power that the device draws.", maximum="power_limit_mw", rank=1, thresholds=(
            Threshold(0.97, _WARNING, "at its limit", "the driver lowers the clocks to stay below it",
                      is_of_full=True),
        ),
    ),
    _device(
        "temperature_c", "temperature", Unit.DEGREES, "temperature_c", "device_temperature_celsius", _DRIVER,
        "Temperature of the device.", short_title="temp", maximum="temperature_limit_c", rank=1, thresholds=(
            Threshold(0.95, _WARNING, "near its limit", "a few degrees more, and the device slows down",
                      is_of_full=True),
            Threshold(1.0, _BAD, "at its limit", "the device slows down to cool", is_of_full=True),
        ),
    ),
    _device(
        "clock_hz", "clock", Unit.HERTZ, "clock_mhz", "device_clock_hertz", _DRIVER,
        "Clock of the compute units.", maximum="clock_max_mhz",
    ),
    _device(
        "memory_clock_hz", "memory clock", Unit.HERTZ, "memory_clock_mhz", "device_memory_clock_hertz",
        _DRIVER, "Clock of the device's memory.", short_title="mem clk",
    ),
    _device(
        "driver_used_bytes", "driver's memory", Unit.BYTES, "driver_used_bytes", "device_driver_used_bytes",
        _DRIVER, "Memory in use by all processes.", short_title="driver", maximum="driver_total_bytes",
        thresholds=(
            Threshold(0.98, _WARNING, "nearly full",
                      "libraries beside JAX, NCCL's among them, find no memory", is_of_full=True),
        ),
    ),
    _device(
        "pcie_received_bytes_per_second", "PCIe in", Unit.BYTES_PER_SECOND, "pcie_received_bytes_per_s",
        "device_pcie_received_bytes_per_second", _DRIVER, "Traffic over PCIe to the device.",
        short_title="pcie in", rank=6,
    ),
    _device(
        "pcie_sent_bytes_per_second", "PCIe out", Unit.BYTES_PER_SECOND, "pcie_sent_bytes_per_s",
        "device_pcie_sent_bytes_per_second", _DRIVER, "Traffic over PCIe from the device.",
        short_title="pcie out", rank=6,
    ),
    _device(
        "link_received_bytes_per_second", "links in", Unit.BYTES_PER_SECOND, "link_received_bytes_per_s",
        "device_link_received_bytes_per_second", _DRIVER,
        "Traffic over links from other devices (NVLink, XGMI, ICI).", short_title="link in",
    ),
    _device(
        "link_sent_bytes_per_second", "links out", Unit.BYTES_PER_SECOND, "link_sent_bytes_per_s",
        "device_link_sent_bytes_per_second", _DRIVER,
        "Traffic over links to other devices (NVLink, XGMI, ICI).", short_title="link out",
    ),
    _device(
        "queued", "queued", Unit.NUMBER, "queued", "device_queued", _DRIVER,
        "Programs that wait for the device.", rank=6,
    ),
    _device(
        "transfer_p50_s", "transfer p50", Unit.SECONDS, "transfer_p50_us", "device_transfer_p50_seconds",
        _DRIVER, "Duration of transfers between hosts, median.", short_title="xfer p50", rank=6,
    ),
    _device(
        "transfer_p99_s", "transfer p99", Unit.SECONDS, "transfer_p99_us", "device_transfer_p99_seconds",
        _DRIVER, "Duration of transfers between hosts, 99 %.", short_title="xfer p99", rank=6,
    ),
    _of_device(
        "peak_bytes", "peak memory", Unit.BYTES, "peak_bytes", "device_memory_peak_bytes", ALLOCATOR,
        "Most memory ever in use.", aliases=("peak",), json="memory",
    ),
    _of_device(
        "limit_bytes", "memory limit", Unit.BYTES, "limit_bytes", "device_memory_limit_bytes", ALLOCATOR,
        "Memory that the allocator may use.", aliases=("limit",), json="memory",
    ),
    _of_device(
        "power_limit_w", "power limit", Unit.WATTS, "power_limit_mw", "device_power_limit_watts", _DRIVER,
        "Power that the device may draw.",
    ),
    _of_device(
        "temperature_limit_c", "temperature limit", Unit.DEGREES, "temperature_limit_c",
        "device_temperature_limit_celsius", _DRIVER, "Temperature at which the device slows down.",
    ),
    _of_device(
        "driver_total_bytes", "driver's total memory", Unit.BYTES, "driver_total_bytes",
        "device_driver_total_bytes", _DRIVER, "Memory of the device.",
    ),
    _of_device(
        "energy_j", "energy", Unit.JOULES, "energy_mj", "device_energy_joules", _DRIVER,
        "Energy that the device has used.", is_counter=True,
    ),
    _of_device(
        "ecc_corrected", "corrected memory errors", Unit.NUMBER, "ecc_corrected", "device_ecc_corrected",
        _DRIVER, "Memory errors that were corrected.", is_counter=True,
    ),
    _of_device(
        "ecc_uncorrected", "uncorrected memory errors", Unit.NUMBER, "ecc_uncorrected",
        "device_ecc_uncorrected", _DRIVER, "Memory errors that were not corrected.", is_counter=True,
        aliases=("ecc",),
    ),
    # Hosts. Where a container has limits, its machine is the container.
    _host(
        "process_cpu_cores", "CPU", Unit.SHARE, "process_cpu_permille", "process_cpu_ratio", _KERNEL,
        "CPU of the process, in cores.", short_title="cpu", maximum="cores_milli", rank=1, pane=(1, "CPU"),
    ),
    _host(
        "machine_cpu", "machine's CPU", Unit.SHARE, "machine_cpu_permille", "machine_cpu_ratio", _KERNEL,
        "CPU of the machine, of all its cores.", short_title="machine", rank=3, pane=(1, "all"),
    ),
    _host(
        "rss_bytes", "resident memory", Unit.BYTES, "rss_bytes", "process_resident_bytes", _KERNEL,
        "Resident memory of the process.", short_title="rss", maximum="memory_total_bytes", rank=2,
        pane=(0, ""),
    ),
    _host(
        "memory_used_bytes", "machine's memory", Unit.BYTES, "memory_used_bytes", "machine_memory_used_bytes",
        _KERNEL, "Memory of the machine in use.", short_title="mem", maximum="memory_total_bytes",
        pane=(2, "memory"), thresholds=(
            Threshold(0.9, _WARNING, "nearly full", "files are read from disk again that memory had room for",
                      is_of_full=True),
            Threshold(0.97, _BAD, "full", "the kernel ends processes when none is left", is_of_full=True),
        ),
    ),
    _host(
        "load", "load", Unit.NUMBER, "load_centi", "machine_load", _KERNEL,
        "Threads that run or wait for a core, mean of a minute.", maximum="cores_milli", rank=3,
        pane=(1, "load"),
    ),
    _host(
        "cpu_pressure", "CPU pressure", Unit.SHARE, "cpu_pressure_permille", "machine_cpu_pressure_ratio",
        _KERNEL, "Time in which something waited for a core.", short_title="cpu wait", pane=(3, "waits: CPU"),
        thresholds=(
            Threshold(0.5, _WARNING, "high", "half of the time something that could run waits for a core"),
        ),
    ),
    _host(
        "memory_pressure", "memory pressure", Unit.SHARE, "memory_pressure_permille",
        "machine_memory_pressure_ratio", _KERNEL, "Time in which something waited for memory.",
        short_title="mem wait", pane=(3, "memory"), thresholds=(
            Threshold(0.1, _WARNING, "high", "processes stand still while memory is looked for"),
        ),
    ),
    _host(
        "io_pressure", "disk pressure", Unit.SHARE, "io_pressure_permille", "machine_io_pressure_ratio",
        _KERNEL, "Time in which something waited for disks.", short_title="io wait", pane=(3, "disk"),
        thresholds=(
            Threshold(0.3, _WARNING, "high",
                      "processes stand still while disks work: input and checkpoints are late"),
        ),
    ),
    _host(
        "held_back", "held back", Unit.SHARE, "held_back_permille", "machine_held_back_ratio", _KERNEL,
        "Time in which the kernel kept the container from running.", short_title="held",
        pane=(2, "held back"), thresholds=(
            Threshold(0.05, _WARNING, "often",
                      "the container has used up its share of CPU, and its threads stand still"),
        ),
    ),
    _host(
        "received_bytes_per_second", "network in", Unit.BYTES_PER_SECOND, "received_bytes_per_s",
        "machine_received_bytes_per_second", _KERNEL, "Network traffic to the machine.",
        short_title="net in", pane=(4, "net in"),
    ),
    _host(
        "sent_bytes_per_second", "network out", Unit.BYTES_PER_SECOND, "sent_bytes_per_s",
        "machine_sent_bytes_per_second", _KERNEL, "Network traffic from the machine.",
        short_title="net out", pane=(4, "out"),
    ),
    _host(
        "disk_read_bytes_per_second", "disk in", Unit.BYTES_PER_SECOND, "disk_read_bytes_per_s",
        "machine_disk_read_bytes_per_second", _KERNEL, "Reads from the machine's disks.", pane=(5, "disk in"),
    ),
    _host(
        "disk_written_bytes_per_second", "disk out", Unit.BYTES_PER_SECOND, "disk_written_bytes_per_s",
        "machine_disk_written_bytes_per_second", _KERNEL, "Writes to the machine's disks.", pane=(5, "out"),
    ),
    _host(
        "process_read_bytes_per_second", "process reads", Unit.BYTES_PER_SECOND, "process_read_bytes_per_s",
        "process_read_bytes_per_second", _KERNEL, "Reads of the process from disks.",
        short_title="reads", pane=(6, "process reads"),
    ),
    _host(
        "process_written_bytes_per_second", "process writes", Unit.BYTES_PER_SECOND,
        "process_written_bytes_per_s", "process_written_bytes_per_second", _KERNEL,
        "Writes of the process to disks.", short_title="writes", pane=(6, "writes"),
    ),
    _of_host(
        "memory_total_bytes", "machine's total memory", Unit.BYTES, "memory_total_bytes",
        "machine_memory_total_bytes", _KERNEL, "Memory of the machine.",
    ),
    _of_host(
        "cores", "cores", Unit.NUMBER, "cores_milli", "machine_cores", _KERNEL,
        "Cores that the process may use.", aliases=("cores",),
    ),
    # Steps. Operations, power and tokens are those of all devices of the process. In JSON, times are in ms.
    _of_step(
        "per_second", "steps per second", Unit.NUMBER, "per_second", "step_rate", _STEPS, "Steps a second.",
        short_title="steps/s", rhythm="milli_per_s", aliases=("steps",),
    ),
    _of_step(
        "mean_ms", "step time", Unit.SECONDS, "mean_s", "step_mean_seconds", _STEPS,
        "Duration of a step, mean of the last seconds.", short_title="step", rhythm="mean_us",
    ),
    _step(
        "p50_ms", "p50", Unit.SECONDS, "p50_s", "step_p50_seconds", _STEPS, "Duration of a step, median.",
        aliases=("step",), rank=1,
    ),
    _of_step(
        "p90_ms", "p90", Unit.SECONDS, "p90_s", "step_p90_seconds", _STEPS, "Duration of a step, 90 %.",
    ),
    _step(
        "p99_ms", "p99", Unit.SECONDS, "p99_s", "step_p99_seconds", _STEPS, "Duration of a step, 99 %.",
        rank=1,
    ),
    _of_step(
        "jitter", "jitter", Unit.SHARE, "jitter", "step_jitter_ratio", _STEPS,
        "By how much p90 exceeds p50, of p50.",
    ),
    _step(
        "idle", "idle", Unit.SHARE, "idle", "step_idle_ratio", "windows of the profiler",
        "Time in which no program ran.", rank=3, thresholds=(
            Threshold(0.2, _WARNING, "high", "the devices wait for the script: for input, or for Python"),
        ),
    ),
    _of_step(
        "launches_per_step", "launches of a step", Unit.NUMBER, "launches", "step_launches", _STEPS,
        "Launches of a step.",
    ),
    _of_step(
        "flops", "operations of a step", Unit.FLOPS, "flops", "step_flops", "compiled programs",
        "Operations of a step, at least.", is_of_operations=True,
    ),
    _step(
        "flops_per_second", "operations per second", Unit.FLOPS_PER_SECOND, "flops_per_second",
        "step_flops_per_second", _ESTIMATE, "Operations a second, at least.", short_title="flop/s",
        aliases=("flops",), is_of_operations=True,
    ),
    _step(
        "utilization_of_peak", "of peak", Unit.SHARE, "utilization", "step_utilization_ratio", _ESTIMATE,
        "Operations a second, of the peak of the devices: an estimate.", aliases=("peak",), rank=2,
        is_estimate=True, is_of_operations=True,
    ),
    _step(
        "tokens_per_second", "tokens per second", Unit.TOKENS_PER_SECOND, "tokens_per_second",
        "tokens_per_second", "script", "Tokens a second, from the metric `tokens` of the script.",
        short_title="tokens/s", aliases=("tokens",),
    ),
    _step(
        "watts", "power", Unit.WATTS, "watts", "", _DRIVER, "Power of the devices.",
    ),
    _step(
        "joules_per_step", "J a step", Unit.JOULES, "joules_per_step", "step_joules", _DRIVER,
        "Energy of a step.", aliases=("joules",),
    ),
    _step(
        "joules_per_token", "J a token", Unit.JOULES, "joules_per_token", "token_joules", _DRIVER,
        "Energy of a token.", aliases=("joules_token",),
    ),
)  # fmt: skip

FIGURES = {each.name: each for each in _TABLE}
STEP_TIME, STEPS_PER_SECOND = FIGURES["mean_ms"], FIGURES["per_second"]
DEVICE_FIGURES = tuple(each for each in _TABLE if each.scope is Scope.DEVICE and each.has_history)
HOST_FIGURES = tuple(each for each in _TABLE if each.scope is Scope.HOST and each.has_history)
STEP_FIGURES = (STEP_TIME, STEPS_PER_SECOND)


def figures_of(scope: Scope) -> tuple[Figure, ...]:
    """Return all figures of devices, hosts or steps, with limits and counters."""
    return tuple(each for each in _TABLE if each.scope is scope)
