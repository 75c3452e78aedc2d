"""The table of figures: each figure of a device, a host, a step or a script is declared here, once.

Columns, filters, mesh metrics, plots, thresholds, exports and `docs/figures.md` are generated from it. A new
figure is a field of the wire, which a collector fills, and a row of this table.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import inf
from typing import TYPE_CHECKING

from jaxtop.model.figure_type import Figure, Level, Scope, Threshold, Unit
from jaxtop.model.steps.scalars import shortened
from jaxtop.model.steps.script import collecting, loss_of
from jaxtop.model.steps.views import pace_of
from jaxtop.wire import is_loss

if TYPE_CHECKING:
    from collections.abc import Iterable

_device, _host, _step = (
    partial(Figure, Scope.DEVICE),
    partial(Figure, Scope.HOST),
    partial(Figure, Scope.STEP),
)
# Exported without a column: limits and counters, and what screens show in their own way.
_exported_device, _exported_host = partial(_device, has_column=False), partial(_host, has_column=False)
_exported_step = partial(_step, has_column=False)
# Only on screen: exports have all metrics of a script.
_script = partial(Figure, Scope.SCRIPT, field="", metric="")
ALLOCATOR = "allocator"
_DRIVER, _KERNEL, _MALLOC, _STEPS = "driver", "kernel", "glibc", "launches"
_ESTIMATE = "compiled programs, launches"
_WARNING, _BAD = Level.WARNING, Level.BAD


def _durations(name: str, short: str, subject: str) -> tuple[Figure, ...]:
    """Return the median and the 99th percentile of a duration of devices."""
    return tuple(
        _device(
            f"{name}_{part}_s", f"{name.replace('_', ' ')} {part}", Unit.SECONDS, f"{name}_{part}_us",
            f"device_{name}_{part}_seconds", _DRIVER, f"Duration of {subject}, {share}.",
            short_title=f"{short} {part}", rank=6,
        )
        for part, share in (("p50", "median"), ("p99", "99 %"))
    )  # fmt: skip


_TABLE: tuple[Figure, ...] = (
    # Devices
    _device(
        "used_bytes", "memory", Unit.BYTES, "used_bytes", "device_memory_used_bytes", ALLOCATOR,
        "Memory in use, by the allocator; where there is none, by the live arrays.",
        maximum="limit_bytes", beside="reserved_bytes", thresholds=(
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
                      "other libraries, such as NCCL, cannot allocate memory", is_of_full=True),
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
    *_durations("transfer", "xfer", "transfers between hosts"),
    _device(
        "idle_s", "core idle", Unit.SECONDS, "idle_ms", "device_idle_seconds", _DRIVER,
        "Idle time of the device's core, as its runtime counts it.", short_title="idle for", rank=6,
    ),
    *_durations("program", "prog", "programs on the device"),
    *_durations("from_host", "h2d", "transfers from the host to its devices"),
    *_durations("to_host", "d2h", "transfers from the devices to their host"),
    *_durations("collective", "coll", "collectives between hosts"),
    _exported_device(
        "peak_bytes", "peak memory", Unit.BYTES, "peak_bytes", "device_memory_peak_bytes", ALLOCATOR,
        "Most memory ever in use.", aliases=("peak",), json="memory",
    ),
    _exported_device(
        "limit_bytes", "memory limit", Unit.BYTES, "limit_bytes", "device_memory_limit_bytes", ALLOCATOR,
        "Memory that the allocator may use.", aliases=("limit",), json="memory",
    ),
    _exported_device(
        "power_limit_w", "power limit", Unit.WATTS, "power_limit_mw", "device_power_limit_watts", _DRIVER,
        "Power that the device may draw.",
    ),
    _exported_device(
        "temperature_limit_c", "temperature limit", Unit.DEGREES, "temperature_limit_c",
        "device_temperature_limit_celsius", _DRIVER, "Temperature at which the device slows down.",
    ),
    _exported_device(
        "driver_total_bytes", "driver's total memory", Unit.BYTES, "driver_total_bytes",
        "device_driver_total_bytes", _DRIVER, "Memory of the device.",
    ),
    _exported_device(
        "energy_j", "energy", Unit.JOULES, "energy_mj", "device_energy_joules", _DRIVER,
        "Energy that the device has used.", is_counter=True,
    ),
    _exported_device(
        "ecc_corrected", "corrected memory errors", Unit.NUMBER, "ecc_corrected", "device_ecc_corrected",
        _DRIVER, "Memory errors that were corrected.", is_counter=True,
    ),
    _exported_device(
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
        "CPU of the machine, of all its cores.", short_title="machine", rank=3, pane=(1, "machine"),
    ),
    _host(
        "rss_bytes", "resident memory", Unit.BYTES, "rss_bytes", "process_resident_bytes", _KERNEL,
        "Resident memory of the process.", short_title="rss", maximum="memory_total_bytes", rank=2,
    ),
    _host(
        "rss_anonymous_bytes", "anonymous memory", Unit.BYTES, "rss_anonymous_bytes",
        "process_resident_anonymous_bytes", _KERNEL,
        "Resident memory of the process that belongs to no file: malloc, Python's objects, stacks.",
        short_title="anon", maximum="memory_total_bytes", pane=(7, "anon"),
    ),
    _host(
        "rss_file_bytes", "mapped files", Unit.BYTES, "rss_file_bytes", "process_resident_file_bytes",
        _KERNEL, "Resident pages of files that the process has mapped; the kernel may take them back.",
        short_title="mapped", pane=(7, "files"),
    ),
    _host(
        "rss_shared_bytes", "shared memory", Unit.BYTES, "rss_shared_bytes",
        "process_resident_shared_bytes", _KERNEL,
        "Resident shared memory of the process; each process that has it mapped counts it.",
        short_title="shared", pane=(7, "shared"),
    ),
    _host(
        "locked_bytes", "locked memory", Unit.BYTES, "locked_bytes", "process_locked_bytes", _KERNEL,
        "Memory that the process keeps from being paged out (mlock).", short_title="locked",
    ),
    _host(
        "pinned_bytes", "pinned memory", Unit.BYTES, "pinned_bytes", "process_pinned_bytes", _KERNEL,
        "Memory that devices may access (VmPin); what the driver of NVIDIA pins is not in it.",
        short_title="pinned",
    ),
    _host(
        "malloc_used_bytes", "malloc arenas in use", Unit.BYTES, "malloc_used_bytes",
        "process_malloc_used_bytes", _MALLOC, "Memory in use in the arenas of malloc.", short_title="malloc",
    ),
    _host(
        "malloc_mapped_bytes", "malloc mapped", Unit.BYTES, "malloc_mapped_bytes",
        "process_malloc_mapped_bytes", _MALLOC,
        "Large blocks of malloc, which have mappings of their own; also pages that nobody has touched yet.",
        short_title="m large",
    ),
    _host(
        "malloc_free_bytes", "malloc arenas free", Unit.BYTES, "malloc_free_bytes",
        "process_malloc_free_bytes", _MALLOC, "Memory that is free in the arenas of malloc, but still held.",
        short_title="m free",
    ),
    _host(
        "children", "child processes", Unit.NUMBER, "children", "process_children", _KERNEL,
        "Processes that the process, or one of these, started.", short_title="children",
        pane=(8, "child processes"),
    ),
    _host(
        "children_rss_bytes", "memory of child processes", Unit.BYTES, "children_rss_bytes",
        "process_children_resident_bytes", _KERNEL,
        "Resident memory of all child processes; pages that they have in common count for each.",
        short_title="ch rss", maximum="memory_total_bytes", pane=(8, "with"),
    ),
    _host(
        "children_anonymous_bytes", "anonymous memory of child processes", Unit.BYTES,
        "children_anonymous_bytes", "process_children_resident_anonymous_bytes", _KERNEL,
        "Resident memory of all child processes that belongs to no file and is not shared memory.",
        short_title="ch anon",
    ),
    _host(
        "memory_used_bytes", "machine's memory", Unit.BYTES, "memory_used_bytes", "machine_memory_used_bytes",
        _KERNEL, "Memory of the machine in use.", short_title="mem", maximum="memory_total_bytes",
        pane=(2, "memory"), thresholds=(
            Threshold(0.9, _WARNING, "nearly full", "cached files are dropped and read from disk again",
                      is_of_full=True),
            Threshold(0.97, _BAD, "full", "the kernel ends processes when none is left", is_of_full=True),
        ),
    ),
    _host(
        "machine_anonymous_bytes", "machine's anonymous memory", Unit.BYTES, "machine_anonymous_bytes",
        "machine_memory_anonymous_bytes", _KERNEL, "Memory of all processes of the machine, without files.",
        short_title="mem anon",
    ),
    _host(
        "machine_file_bytes", "machine's file cache", Unit.BYTES, "machine_file_bytes",
        "machine_memory_file_bytes", _KERNEL,
        "Cached files of the machine; the kernel takes this memory back when it is needed.",
        short_title="mem file",
    ),
    _host(
        "machine_shared_bytes", "machine's shared memory", Unit.BYTES, "machine_shared_bytes",
        "machine_memory_shared_bytes", _KERNEL,
        "Shared memory of the machine, also what no process has mapped: `/dev/shm`.", short_title="mem shm",
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
            Threshold(0.1, _WARNING, "high", "processes wait while the kernel looks for free memory"),
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
    _exported_host(
        "memory_total_bytes", "machine's total memory", Unit.BYTES, "memory_total_bytes",
        "machine_memory_total_bytes", _KERNEL, "Memory of the machine.",
    ),
    _exported_host(
        "cores", "cores", Unit.NUMBER, "cores_milli", "machine_cores", _KERNEL,
        "Cores that the process may use.", aliases=("cores",),
    ),
    # Steps. Operations, power and tokens are those of all devices of the process. In JSON, times are in ms.
    _exported_step(
        "per_second", "steps per second", Unit.NUMBER, "per_second", "step_rate", _STEPS, "Steps a second.",
        short_title="steps/s", rhythm="milli_per_s", aliases=("steps",), of_host=pace_of,
    ),
    _exported_step(
        "mean_ms", "step time", Unit.SECONDS, "mean_s", "step_mean_seconds", _STEPS,
        "Duration of a step, mean of the last seconds.", short_title="step", rhythm="mean_us",
    ),
    _step(
        "p50_ms", "p50", Unit.SECONDS, "p50_s", "step_p50_seconds", _STEPS, "Duration of a step, median.",
        aliases=("step",), rank=1,
    ),
    _exported_step(
        "p90_ms", "p90", Unit.SECONDS, "p90_s", "step_p90_seconds", _STEPS, "Duration of a step, 90 %.",
    ),
    _step(
        "p99_ms", "p99", Unit.SECONDS, "p99_s", "step_p99_seconds", _STEPS, "Duration of a step, 99 %.",
        rank=1,
    ),
    _exported_step(
        "jitter", "jitter", Unit.SHARE, "jitter", "step_jitter_ratio", _STEPS,
        "By how much p90 exceeds p50, of p50.",
    ),
    _step(
        "idle", "idle", Unit.SHARE, "idle", "step_idle_ratio", "windows of the profiler",
        "Time in which no program ran.", rank=3, thresholds=(
            Threshold(0.2, _WARNING, "high", "the devices wait for the script: for input, or for Python"),
        ),
    ),
    _exported_step(
        "launches_per_step", "launches of a step", Unit.NUMBER, "launches", "step_launches", _STEPS,
        "Launches of a step.",
    ),
    _exported_step(
        "flops", "operations of a step", Unit.FLOPS, "flops", "step_flops", "compiled programs",
        "Operations of a step, at least.", is_operation_bound=True,
    ),
    _step(
        "flops_per_second", "operations per second", Unit.FLOPS_PER_SECOND, "flops_per_second",
        "step_flops_per_second", _ESTIMATE, "Operations a second, at least.", short_title="flop/s",
        aliases=("flops",), is_operation_bound=True,
    ),
    _step(
        "utilization_of_peak", "of peak", Unit.SHARE, "utilization", "step_utilization_ratio", _ESTIMATE,
        "Operations a second, of the peak of the devices: an estimate.", aliases=("peak",), rank=2,
        is_estimate=True, is_operation_bound=True,
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
    # Scripts
    _script(
        "loss", "loss", Unit.LOSS, source="script", of_host=loss_of, outlasts=True,
        help="Loss that the script reported last, of several the first.", thresholds=(
            Threshold(inf, _BAD, "not finite", "every step after it is computed in vain"),
        ),
    ),
    _script(
        "gc", "garbage collection", Unit.SHARE, source="Python", of_host=collecting, short_title="gc",
        shown_from=0.01,
        help="Time in which Python collected garbage outside of compilations, and ran nothing else.",
    ),
)  # fmt: skip

FIGURES = {each.name: each for each in _TABLE}
MEMORY = FIGURES["used_bytes"]
STEP_TIME, STEPS_PER_SECOND = FIGURES["mean_ms"], FIGURES["per_second"]
DEVICE_FIGURES = tuple(each for each in _TABLE if each.scope is Scope.DEVICE and each.has_history)
HOST_FIGURES = tuple(each for each in _TABLE if each.scope is Scope.HOST and each.has_history)
STEP_FIGURES = (STEP_TIME, STEPS_PER_SECOND)
# What the names of figures of scalars begin with: a scalar may be called as any other figure.
SCALAR = "scalar "


def figures_of(scope: Scope) -> tuple[Figure, ...]:
    """Return all figures of devices, hosts, steps or scripts, with limits and counters."""
    return tuple(each for each in _TABLE if each.scope is scope)


def scalar_figures(names: Iterable[str]) -> list[Figure]:
    """Return the figures of scalars of a script, losses first."""
    return [scalar_figure(name) for name in sorted(names, key=lambda name: (not is_loss(name), name))]


@lru_cache(maxsize=1024)
def scalar_figure(name: str) -> Figure:
    """Return the figure of a scalar that a script reports; it has no column, but a plot."""
    return Figure(
        Scope.SCRIPT, f"{SCALAR}{name}", shortened(name), Unit.LOSS, name, "", "script",
        "A value that the script reports or logs, or that its engine serves.", has_column=False,
    )  # fmt: skip
