"""The table of metrics: what each is called, and what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.export.readings import OF_HARDWARE, OF_HOSTS, OF_MEMORY, OF_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model import Figure

SNAPSHOT, SERIES = "snapshot", "series"


class Metric(NamedTuple):
    """A metric: its help, unit and kind in OpenMetrics.

    `names` are the labels that distinguish its rows in the long form of figures over time. `only` is the form
    that has it, if the other has not.
    """

    help: str
    unit: str = ""
    kind: str = "gauge"
    names: tuple[str, ...] = ()
    only: str = ""


def _metrics_of(figures: Iterable[Figure]) -> dict[str, Metric]:
    return {each.metric: Metric(each.help, each.unit, _KINDS[each.is_counter]) for each in figures}


_KINDS = ("gauge", "counter")
_COLLECTIVE = ("program", "op", "axes")
# What the name of a sample adds to the name of its metric.
_SUFFIXES = {"counter": "_total", "info": "_info"}
METRICS: dict[str, Metric] = {
    "run": Metric("A run, to join with its other metrics.", "", "info", (), SNAPSHOT),
    "host": Metric("A process, to join with its other metrics.", "", "info", (), SNAPSHOT),
    "device": Metric("A device, to join with its other metrics.", "", "info", (), SNAPSHOT),
    "host_state": Metric("What the host is doing.", "", "stateset", (), SNAPSHOT),
    "host_live": Metric("Whether the host is live.", only=SERIES),
    **_metrics_of(OF_HOSTS),
    "spent_seconds": Metric(
        "What the process has spent its time on since it started.", "seconds", "counter", names=("kind",)
    ),
    "goodput_ratio": Metric("The share of the device time that went to steps.", "ratio", only=SNAPSHOT),
    "thread_cpu_ratio": Metric("CPU of the busiest threads, in cores.", "ratio", names=("thread",)),
    "launches": Metric("Launches of a compiled function, at least.", "", "counter", ("function",)),
    "steps": Metric("Steps that the script reported, or that were found.", "", "counter"),
    "step_metric": Metric("What the script reported of its latest step.", names=("metric",)),
    "agent_cpu_ratio": Metric("CPU of the agent itself, in cores.", "ratio"),
    **_metrics_of(OF_STEPS),
    **{name: each._replace(names=("source",)) for name, each in _metrics_of(OF_MEMORY).items()},
    "device_memory_part_bytes": Metric("Memory by what takes it.", "bytes", names=("part",)),
    **_metrics_of(OF_HARDWARE),
    "device_slowed": Metric("Whether it runs slower than it could, and why.", names=("reason",)),
    "device_wait_seconds": Metric("Wait for other devices in a step.", "seconds", only=SNAPSHOT),
    "arrays": Metric("Live arrays, each counted once.", names=("role",), only=SERIES),
    "arrays_bytes": Metric("Bytes of live arrays, each counted once.", "bytes", names=("role",), only=SERIES),
    "compiles": Metric("Compilations of a function.", "", "counter", only=SNAPSHOT),
    "program_flops": Metric("Operations of a launch on a device, at least.", "flops", only=SNAPSHOT),
    "program_memory_bytes": Metric("What a program needs of a device.", "bytes", only=SNAPSHOT),
    "program_differs": Metric("Processes with another program of this name.", only=SNAPSHOT),
    "program_collective_ratio": Metric("Share of a launch within collectives.", "ratio", only=SNAPSHOT),
    "program_exposed_ratio": Metric("Share of a launch in collectives alone.", "ratio", only=SNAPSHOT),
    "collective_bytes": Metric("Bytes, as nccl-tests count them.", "bytes", only=SNAPSHOT),
    "collective_rate": Metric("How often a second it runs.", names=_COLLECTIVE),
    "collective_samples": Metric("Instances that were measured.", only=SNAPSHOT),
    # No count and no sum: only some launches are measured.
    "collective_seconds": Metric("Duration for who came first.", "seconds", "summary", _COLLECTIVE),
    "collective_transfer_seconds": Metric("Duration without waiting.", "seconds", names=_COLLECTIVE),
    "collective_wait_seconds": Metric("Longest wait in a group, median.", "seconds", names=_COLLECTIVE),
    "collective_bus_bytes_per_second": Metric(
        "Bus bandwidth, estimated.", "bytes_per_second", names=_COLLECTIVE
    ),
    "collective_straggler_ratio": Metric("Share in which it came last.", "ratio", only=SNAPSHOT),
    "findings": Metric("What is wrong with the run, by rule.", names=("rule", "severity")),
    "findings_since_seconds": Metric(
        "Start of the oldest of them, as seconds since 1970.", "seconds", names=("rule", "severity")
    ),
    "rules_unchecked": Metric("Rules that could not be checked.", only=SNAPSHOT),
}


def sample_name(metric: str) -> str:
    """Return the name of the samples of a metric, as Prometheus has it."""
    return f"jaxtop_{metric}{_SUFFIXES.get(METRICS[metric].kind, '')}"
