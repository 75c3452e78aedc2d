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
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop.base.times import timestamp
from jaxtop.export import openmetrics
from jaxtop.export.csv import cell
from jaxtop.export.metrics import METRICS as ALL
from jaxtop.export.metrics import SNAPSHOT
from jaxtop.export.samples import at_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jaxtop.export.samples import MetricSample
    from jaxtop.model import Cluster

    Moments = Iterable[tuple[float, Cluster]]

METRICS = {name: metric for name, metric in ALL.items() if metric.only != SNAPSHOT}

COLUMNS = ("time", "run", "process", "device", "metric", "name", "value", "unit")


def to_csv_series(moments: Moments) -> Iterator[str]:
    """Yield a table with a header."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for at, cluster in moments:
        time = timestamp(at)
        for sample in at_moment(cluster, at):
            table.writerow(map(cell, _row(time, sample)))
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def to_json_series(moments: Moments) -> Iterator[str]:
    """Yield one object per line, each with all columns; null for an empty column and for NaN or infinity."""
    for at, cluster in moments:
        time = timestamp(at)
        for sample in at_moment(cluster, at):
            *row, name, value, unit = _row(time, sample)
            row = [*row, name or None, value, unit or None]
            yield msgspec.json.encode(dict(zip(COLUMNS, row, strict=True))).decode() + "\n"


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
            added = []
            for sample in at_moment(cluster, at):
                number = series.setdefault((sample.metric, _labels(sample)), len(series))
                if latest.get(number, -math.inf) < at:  # a series has one value at a time
                    latest[number] = at
                    added.append((number, f"{at:.6f}", openmetrics.number(sample.value)))
            database.executemany("insert into sample values (?, ?, ?)", added)
        database.execute("create index by_series on sample (series)")
        for name in METRICS:
            numbers = [(labels, number) for (metric, labels), number in series.items() if metric == name]
            if numbers:
                yield openmetrics.heading(name)
            for labels, number in numbers:
                found = database.execute(
                    "select at, value from sample where series = ? order by rowid", (number,)
                )
                yield from (openmetrics.sample(name, labels, f"{value} {at}") for at, value in found)
    except sqlite3.Error as error:
        raise OSError(f"the samples cannot be sorted in a temporary file: {error}") from None
    finally:
        database.close()
    yield openmetrics.END


SERIES: dict[str, Callable[[Moments], Iterator[str]]] = {
    "csv": to_csv_series,
    "json": to_json_series,
    "openmetrics": to_openmetrics_series,
}


def _row(time: str, sample: MetricSample) -> list[Any]:
    """Return the cells of a sample, in the order of `COLUMNS`."""
    metric, where, _, value = sample
    name = " ".join(str(each) for _, each in _names(sample))
    place = (where["run"], where.get("process_index"), where.get("device"))
    return [time, *place, metric, name, value, METRICS[metric].unit]


def _names(sample: MetricSample) -> list[tuple[str, object]]:
    """Return the labels that distinguish a row from others of its metric."""
    names = METRICS[sample.metric].names
    labels = ((name, sample.labels[name]) for name in names)
    return [(name, "unknown" if value is None else value) for name, value in labels]


def _labels(sample: MetricSample) -> str:
    quantile = sample.labels.get("quantile")
    return openmetrics.labels_text([*sample.where.items(), *_names(sample), ("quantile", quantile)])
