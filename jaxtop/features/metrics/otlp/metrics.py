"""The metrics of one moment as messages of OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from jaxtop.export.metrics import METRICS, sample_name
from jaxtop.export.samples import snapshot
from jaxtop.features.metrics.otlp.resources import SCOPE, attributes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opentelemetry.sdk.resources import Resource

    from jaxtop.export.samples import Labels
    from jaxtop.features.metrics.otlp.resources import Attributes, Resources
    from jaxtop.model import Cluster

    Points = dict[str, list[NumberDataPoint]]

# Collectors refuse requests of more than a few megabytes; a point has about 200 bytes.
MAX_POINTS = 5_000
# Units as UCUM spells them. From name and unit, translators to Prometheus make the names that `/metrics` has.
UNITS = {
    "bytes": "By", "seconds": "s", "ratio": "1", "watts": "W", "joules": "J", "celsius": "Cel", "hertz": "Hz",
    "bytes_per_second": "By/s", "flops": "{flop}", "flops_per_second": "{flop}/s",
    "tokens_per_second": "{token}/s", "": "",
}  # fmt: skip


def metric_messages(cluster: Cluster, now: float, detail: str, resources: Resources) -> Iterator[MetricsData]:
    """Yield the metrics of one moment, in messages of a bounded size."""
    batch: list[ResourceMetrics] = []
    size = 0
    for resource, points in _by_resource(cluster, now, detail, resources):
        sent = [_metric(name, of_metric) for name, of_metric in points.items()]
        batch.append(ResourceMetrics(resource, [ScopeMetrics(SCOPE, sent, "")], ""))
        size += sum(map(len, points.values()))
        if size >= MAX_POINTS:
            yield MetricsData(batch)
            batch, size = [], 0
    if batch:
        yield MetricsData(batch)


def _by_resource(
    cluster: Cluster, now: float, detail: str, resources: Resources
) -> Iterable[tuple[Resource, Points]]:
    found: dict[int, tuple[Resource, Points]] = {}
    at = int(now * 1e9)
    place: Labels | None = None
    of_place: Attributes = {}
    points: Points = {}
    started = 0
    for metric, where, labels, value in snapshot(cluster, now, detail):
        if where is not place:  # most samples have the place of the sample before them
            place, of_place, (resource, started) = where, attributes(where), resources.of(where)
            _, points = found.setdefault(id(resource), (resource, {}))
        # Counters of a device began with its driver, those of a process with the process.
        began = started if METRICS[metric].kind == "counter" and "device" not in where else 0
        point = NumberDataPoint({**of_place, **attributes(labels)}, began, at, value)
        points.setdefault(metric, []).append(point)
    return found.values()


def _metric(name: str, points: list[NumberDataPoint]) -> Metric:
    declared = METRICS[name]
    help_text, unit = declared.help, UNITS[declared.unit]
    if declared.kind == "counter":  # what translates metrics to Prometheus adds the ending of a counter
        data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        return Metric(f"jaxtop_{name}", help_text, unit, data)
    return Metric(sample_name(name), help_text, unit, Gauge(points))
