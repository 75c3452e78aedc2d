"""Figures over time, in long form: one row for each known figure at a moment.

A row has its time (UTC), run, process (its index), device (its global id), metric, name, value and unit.
`name` distinguishes figures of one metric: a function, a part of the memory, a role of arrays, a collective
with program and axes. Metrics have the names of the OpenMetrics snapshot. Unknown figures have no row. Hosts
that are not live have only `host_live`, which is 0.
"""

from __future__ import annotations

import csv
import io
import math
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from jaxtop.export.csv import cell
from jaxtop.export.json import timestamp
from jaxtop.export.metrics import FACTS, OF_DEVICES, OF_HOSTS, OF_STEPS, by_name, slowed, told
from jaxtop.export.openmetrics import escaped
from jaxtop.model import Part, State, arrays, devices, memory, runs, step_of, steps_of
from jaxtop.model.collectives import collectives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jaxtop.model import Cluster, Host, MemoryView

    Moments = Iterable[tuple[float, Cluster]]


class Metric(NamedTuple):
    """A metric: its kind and unit in OpenMetrics, and the labels that `name` stands for.

    `fixed` has the labels that all its samples have in OpenMetrics.
    """

    help: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    kind: str = "gauge"
    fixed: tuple[tuple[str, str], ...] = ()


_COLLECTIVE = ("program", "op", "axes")
METRICS = {
    "host_live": Metric("Whether the host is live."),
    **{each.metric: Metric(each.help, each.unit) for each in OF_HOSTS},
    "machine_cores": Metric("Cores that the process may use."),
    "machine_memory_total_bytes": Metric("Memory of the container.", "bytes"),
    "thread_cpu_ratio": Metric("CPU of the busiest threads, in cores.", "ratio", ("thread",)),
    "agent_cpu_ratio": Metric("CPU of the agent itself, in cores.", "ratio"),
    "launches": Metric("Launches of a compiled function, at least.", "", ("function",), "counter"),
    "steps": Metric("Steps that the script reported, or that were found.", "", (), "counter"),
    **{each.metric: Metric(each.help, each.unit) for each in OF_STEPS},
    "step_metric": Metric("What the script said of its latest step.", "", ("metric",)),
    "device_memory_used_bytes": Metric("Bytes in use.", "bytes", ("source",)),
    "device_memory_peak_bytes": Metric("Most bytes ever in use.", "bytes", ("source",)),
    "device_memory_limit_bytes": Metric("Bytes the allocator may use.", "bytes", ("source",)),
    "device_memory_part_bytes": Metric("Memory by what takes it.", "bytes", ("part",)),
    **{each.metric: Metric(each.help, each.unit) for each in OF_DEVICES},
    **{each.metric: Metric(each.help, each.unit, (), each.kind) for each in FACTS},
    "device_slowed": Metric("Whether it runs slower than it could, and why.", "", ("reason",)),
    "arrays": Metric("Live arrays, each counted once.", "", ("role",)),
    "arrays_bytes": Metric("Bytes of live arrays, each counted once.", "bytes", ("role",)),
    "collective_rate": Metric("How often a second it runs.", "", _COLLECTIVE),
    "collective_seconds": Metric(
        "Duration for who came first.", "seconds", _COLLECTIVE, "summary", (("quantile", "0.5"),)
    ),
    "collective_transfer_seconds": Metric("Duration without waiting.", "seconds", _COLLECTIVE),
    "collective_wait_seconds": Metric("Longest wait in a group, median.", "seconds", _COLLECTIVE),
    "collective_bus_bytes_per_second": Metric(
        "Bus bandwidth, estimated.", "bytes_per_second", _COLLECTIVE
    ),
}  # fmt: skip


class Row(NamedTuple):
    """One figure at one moment."""

    run: str
    process: int | None
    device: int | None
    metric: str
    names: tuple[str, ...]
    value: float


COLUMNS = ("time", "run", "process", "device", "metric", "name", "value", "unit")


def to_csv_series(moments: Moments) -> Iterator[str]:
    """Yield a table with a header."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for at, cluster in moments:
        time = timestamp(at)
        for row in _rows(cluster, at):
            name = " ".join(row.names)
            unit = METRICS[row.metric].unit
            told = (time, row.run, row.process, row.device, row.metric, name, row.value, unit)
            table.writerow(map(cell, told))
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def to_json_series(moments: Moments) -> Iterator[str]:
    """Yield one object per line, each with all columns; null for an empty column and for NaN or infinity."""
    for at, cluster in moments:
        time = timestamp(at)
        for row in _rows(cluster, at):
            name, unit = " ".join(row.names) or None, METRICS[row.metric].unit or None
            values = (time, row.run, row.process, row.device, row.metric, name, row.value, unit)
            yield msgspec.json.encode(dict(zip(COLUMNS, values, strict=True))).decode() + "\n"


def to_openmetrics_series(moments: Moments) -> Iterator[str]:
    """Yield the exposition format, version 1.0.0, with timestamps.

    The format requires all samples of a series to be contiguous, so we sort them in a temporary file.
    """
    series: dict[tuple[str, str], int] = {}
    latest: dict[int, float] = {}
    # Without a name, the database is a private temporary file that is deleted when the connection closes.
    database = sqlite3.connect("")
    try:
        database.execute("create table sample (series integer, at text, value text)")
        for at, cluster in moments:
            told = []
            for row in _rows(cluster, at):
                number = series.setdefault((row.metric, _labels(row)), len(series))
                if latest.get(number, -math.inf) < at:  # a series has one value at a time
                    latest[number] = at
                    told.append((number, f"{at:.6f}", _number(row.value)))
            database.executemany("insert into sample values (?, ?, ?)", told)
        database.execute("create index by_series on sample (series)")
        for name, metric in METRICS.items():
            numbers = [(labels, number) for (its, labels), number in series.items() if its == name]
            yield from _heading(name, metric) if numbers else ()
            suffix = "_total" if metric.kind == "counter" else ""
            for labels, number in numbers:
                found = database.execute(
                    "select at, value from sample where series = ? order by rowid", (number,)
                )
                yield from (f"jaxtop_{name}{suffix}{labels} {value} {at}\n" for at, value in found)
    finally:
        database.close()
    yield "# EOF\n"


SERIES: dict[str, Callable[[Moments], Iterator[str]]] = {
    "csv": to_csv_series,
    "json": to_json_series,
    "openmetrics": to_openmetrics_series,
}


def _heading(name: str, metric: Metric) -> Iterator[str]:
    yield f"# TYPE jaxtop_{name} {metric.kind}\n"
    if metric.unit:
        yield f"# UNIT jaxtop_{name} {metric.unit}\n"
    yield f"# HELP jaxtop_{name} {metric.help}\n"


def _labels(row: Row) -> str:
    given: list[tuple[str, object]] = [
        ("run", row.run),
        ("process_index", row.process),
        ("device", row.device),
    ]
    metric = METRICS[row.metric]
    given += zip(metric.labels, row.names, strict=True)
    given += metric.fixed
    return (
        "{" + ",".join(f'{name}="{escaped(str(value))}"' for name, value in given if value is not None) + "}"
    )


def _number(value: float) -> str:
    if math.isfinite(value):
        return str(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


# Rows


def _rows(cluster: Cluster, at: float) -> Iterator[Row]:
    held: dict[str, list[MemoryView]] = {}
    for view in memory(cluster, devices(cluster, at)):
        held.setdefault(view.device.agent, []).append(view)
    live = set()
    for run in runs(cluster, at):
        for each in run.hosts:
            is_live = each.state is State.LIVE
            process = each.host.process_index
            yield Row(run.id, process, None, "host_live", (), int(is_live))
            if is_live:
                live.add(run.id)
                yield from _of_host(run.id, each.now)
                for view in held.get(each.host.agent, ()):
                    yield from _of_device(run.id, process, view)
    yield from _of_arrays(cluster, live)
    yield from _of_collectives(cluster, live)


def _of_host(run: str, host: Host) -> Iterator[Row]:
    pulse = host.pulse
    figures = {
        **{each.metric: told(each.figure, pulse) for each in OF_HOSTS},
        "machine_cores": _over(pulse.host.cores_milli, 1000),
        "machine_memory_total_bytes": pulse.host.memory_total_bytes,
        "agent_cpu_ratio": _over(pulse.cost.cpu_ppm, 1_000_000),
        "steps": steps_of(host),
    }
    if (step := step_of(host)) is not None:
        figures |= {each.metric: each.read(step) for each in OF_STEPS}
    for metric, value in figures.items():
        if value is not None:
            yield Row(run, host.process_index, None, metric, (), value)
    for function, count in host.launches.items():
        yield Row(run, host.process_index, None, "launches", (function,), count)
    for name, said in (pulse.step.metrics if pulse.step else {}).items():
        yield Row(run, host.process_index, None, "step_metric", (name,), said)
    taken = ((each.name, each.cpu_permille / 1000) for each in pulse.host.busy_threads)
    for thread, share in by_name(taken).items():
        yield Row(run, host.process_index, None, "thread_cpu_ratio", (thread,), share)


def _of_device(run: str, process: int | None, view: MemoryView) -> Iterator[Row]:
    device = view.device
    source = (device.memory_source or "unknown",)
    figures: list[tuple[str, tuple[str, ...], float | None]] = [
        ("device_memory_used_bytes", source, device.used_bytes),
        ("device_memory_peak_bytes", source, device.peak_bytes),
        ("device_memory_limit_bytes", source, device.limit_bytes),
        *(("device_memory_part_bytes", (part.replace(" ", "_"),), view.of(part)) for part in Part),
        *((each.metric, (), told(each.figure, device.pulse, device.position)) for each in OF_DEVICES),
        *((each.metric, (), each.read(device)) for each in FACTS),
        *(("device_slowed", (why,), holds) for why, holds in slowed(device).items()),
    ]
    for metric, names, value in figures:
        if value is not None:
            yield Row(run, process, device.id, metric, names, value)


def _of_arrays(cluster: Cluster, live: set[str]) -> Iterator[Row]:
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for view in arrays(cluster):
        if view.run in live:
            key = view.run, view.role or ("other" if view.name else "unnamed")
            count, size = counts.get(key, (0, 0))
            counts[key] = count + view.count, size + view.bytes_global
    for (run, role), (count, size) in counts.items():
        yield Row(run, None, None, "arrays", (role,), count)
        yield Row(run, None, None, "arrays_bytes", (role,), size)


def _of_collectives(cluster: Cluster, live: set[str]) -> Iterator[Row]:
    for view in collectives(cluster):
        if view.run not in live:
            continue
        names = view.program, view.op, "unknown" if view.axes is None else ",".join(view.axes)
        figures = {
            "collective_rate": view.per_second,
            "collective_seconds": _over(view.p50_us, 10**6),
            "collective_transfer_seconds": _over(view.transfer_us, 10**6),
            "collective_wait_seconds": _over(view.wait_us, 10**6),
            "collective_bus_bytes_per_second": view.busbw_bytes_per_s,
        }
        for metric, value in figures.items():
            if value is not None:
                yield Row(view.run, None, None, metric, names, value)


def _over(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit
