"""The cluster in the text formats that Prometheus reads: OpenMetrics 1.0.0, and the classic one before it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jaxtop.base.names import legible
from jaxtop.export.metrics import METRICS, sample_name
from jaxtop.export.samples import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from jaxtop.export.samples import Labels, MetricSample
    from jaxtop.model import Cluster

END = "# EOF\n"
LINES_AT_ONCE = 256
# Kinds of OpenMetrics that the classic format lacks, and what they are there.
_CLASSIC_KINDS = {"info": "gauge", "stateset": "gauge"}


def to_openmetrics(cluster: Cluster, now: float) -> str:
    """Return the exposition, with its end mark."""
    return "".join(by_metric(snapshot(cluster, now), heading)) + END


def by_metric(samples: Iterable[MetricSample], heading: Callable[[str], str]) -> Iterator[str]:
    """Yield the text of each metric in turn. Both formats want its samples side by side.

    The lines wait as texts of many lines: as texts of their own they would take twice the memory.
    """
    lines: dict[str, list[str]] = {name: [] for name in METRICS}
    texts: dict[str, list[str]] = {name: [] for name in METRICS}
    begins = {name: f"{sample_name(name)}{{" for name in METRICS}
    place: Labels = {}
    joined: dict[tuple[object, ...], str] = {}
    prefix = ""
    for metric, where, labels, value in samples:
        # Most samples have the place of the sample before them, and labels that many others have.
        if where is not place:
            place, prefix = where, _joined(where)
        key = (*labels, *labels.values())
        if key not in joined:
            text = _joined(labels)
            joined[key] = f",{text}" if text else ""
        written = lines[metric]
        written.append(
            f"{begins[metric]}{prefix}{joined[key]}}} {value if type(value) is int else number(value)}\n"
        )
        if len(written) == LINES_AT_ONCE:
            texts[metric].append("".join(written))
            written.clear()
    for name in METRICS:
        if texts[name] or lines[name]:
            yield heading(name)
            yield from texts.pop(name)
            yield "".join(lines.pop(name))


def heading(name: str) -> str:
    """Return the lines that describe a metric."""
    metric = METRICS[name]
    unit = f"# UNIT jaxtop_{name} {metric.unit}\n" if metric.unit else ""
    return f"# TYPE jaxtop_{name} {metric.kind}\n{unit}# HELP jaxtop_{name} {metric.help}\n"


def classic_heading(name: str) -> str:
    """Return the lines that describe a metric in the classic format."""
    metric, shown_name = METRICS[name], sample_name(name)
    kind = _CLASSIC_KINDS.get(metric.kind, metric.kind)
    return f"# HELP {shown_name} {metric.help}\n# TYPE {shown_name} {kind}\n"


def sample(name: str, labels: str, value: str) -> str:
    return f"{sample_name(name)}{labels} {value}\n"


def labels_text(labels: Iterable[tuple[str, object]]) -> str:
    """Return labels in the format's syntax; those of None are left out."""
    given = _joined(dict(labels))
    return f"{{{given}}}" if given else ""


def _joined(labels: Mapping[str, object]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items() if value is not None)


def label_value(value: object) -> str:
    """Return the text of a label; of control characters only the end of a line stays as it is."""
    text = str(value)
    return text if text.isprintable() else "\n".join(map(legible, text.split("\n")))


def _escaped(value: object) -> str:
    return label_value(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """Return a value in the format's syntax."""
    if math.isfinite(value):
        return str(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
