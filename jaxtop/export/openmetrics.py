"""The cluster in the OpenMetrics text format, version 1.0.0, which Prometheus reads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jaxtop.export.metrics import METRICS, sample_name, snapshot
from jaxtop.names import legible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model import Cluster

END = "# EOF\n"


def to_openmetrics(cluster: Cluster, now: float) -> str:
    """Return the exposition, with its end mark. The format wants the samples of a metric side by side."""
    found: dict[str, list[str]] = {}
    for metric, where, labels, value in snapshot(cluster, now):
        line = sample(metric, labels_text({**where, **labels}.items()), number(value))
        found.setdefault(metric, []).append(line)
    return "".join(heading(name) + "".join(found[name]) for name in METRICS if name in found) + END


def heading(name: str) -> str:
    """Return the lines that describe a metric."""
    metric = METRICS[name]
    unit = f"# UNIT jaxtop_{name} {metric.unit}\n" if metric.unit else ""
    return f"# TYPE jaxtop_{name} {metric.kind}\n{unit}# HELP jaxtop_{name} {metric.help}\n"


def sample(name: str, labels: str, value: str) -> str:
    return f"{sample_name(name)}{labels} {value}\n"


def labels_text(labels: Iterable[tuple[str, object]]) -> str:
    """Return labels in the format's syntax; those of None are left out."""
    given = [f'{name}="{_escaped(value)}"' for name, value in labels if value is not None]
    return "{" + ",".join(given) + "}" if given else ""


def label_value(value: object) -> str:
    """Return the text of a label; of control characters only the end of a line stays as it is."""
    return "\n".join(map(legible, str(value).split("\n")))


def _escaped(value: object) -> str:
    return label_value(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """Return a value in the format's syntax."""
    if math.isfinite(value):
        return str(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
