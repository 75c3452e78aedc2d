"""The cluster as metric families of `prometheus_client`, which writes both text formats of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.export.metrics import METRICS, sample_name, snapshot
from jaxtop.export.openmetrics import label_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric as Family

    from jaxtop.export.metrics import Sample
    from jaxtop.model import Cluster

# How much is exposed: each level includes the levels before it.
RUN, HOST, DEVICE, PROGRAM = DETAILS = ("run", "host", "device", "program")
CLASSIC, OPENMETRICS = "", "application/openmetrics-text; version=1.0.0"
_OF_PROGRAMS = frozenset({"program", "function"})


class _Families:
    """A collector, in the sense of `prometheus_client`, of one moment."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterable[Family]:
        from prometheus_client.core import Metric as Family  # optional: the extra `exporter` installs it

        found: dict[str, Family] = {}
        for name, where, labels, value in self._samples:
            metric = METRICS[name]
            family = found.get(name)
            if family is None:
                family = found[name] = Family(f"jaxtop_{name}", metric.help, metric.kind, metric.unit)
            texts = {key: label_value(text) for key, text in {**where, **labels}.items() if text is not None}
            family.add_sample(sample_name(name), texts, float(value))
        return [found[name] for name in METRICS if name in found]


def preferred(accept: str) -> str:
    """Return the format for a client with this `Accept` header: there are only two to share."""
    types = [each.partition(";")[0].strip() for each in accept.split(",")]
    return OPENMETRICS if OPENMETRICS.partition(";")[0] in types else CLASSIC


def exposition(cluster: Cluster, now: float, accept: str, detail: str) -> tuple[bytes, str]:
    """Return the text in one of the two formats, and its content type."""
    from prometheus_client.exposition import choose_encoder  # optional: the extra `exporter` installs it

    encode, content_type = choose_encoder(accept)
    most = DETAILS.index(detail)
    samples = (each for each in snapshot(cluster, now) if _level(each) <= most)
    text: bytes = encode(_Families(samples))
    return text, content_type


def _level(sample: Sample) -> int:
    if not _OF_PROGRAMS.isdisjoint(sample.where) or not _OF_PROGRAMS.isdisjoint(sample.labels):
        return DETAILS.index(PROGRAM)
    if "device" in sample.where:
        return DETAILS.index(DEVICE)
    return DETAILS.index(HOST if "process_index" in sample.where else RUN)
