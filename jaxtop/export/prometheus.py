"""The cluster as metric families of `prometheus_client`, which writes both text formats of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder

from jaxtop.export.metrics import METRICS, SUFFIXES, snapshot
from jaxtop.export.openmetrics import label_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.export.metrics import Sample
    from jaxtop.model import Cluster

# How much is exposed: each level has what the levels before it have.
RUN, HOST, DEVICE, PROGRAM = DETAILS = ("run", "host", "device", "program")
_OF_PROGRAMS = frozenset({"program", "function"})


class _Families:
    """A collector, in the sense of `prometheus_client`, of one moment."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterable[Family]:
        found: dict[str, Family] = {}
        for name, where, labels, value in self._samples:
            metric = METRICS[name]
            family = found.get(name)
            if family is None:
                family = found[name] = Family(f"jaxtop_{name}", metric.help, metric.kind, metric.unit)
            texts = {key: label_value(text) for key, text in {**where, **labels}.items() if text is not None}
            family.add_sample(f"jaxtop_{name}{SUFFIXES.get(metric.kind, '')}", texts, float(value))
        return [found[name] for name in METRICS if name in found]


def exposition(cluster: Cluster, now: float, accept: str, detail: str) -> tuple[bytes, str]:
    """Return the text in the format that the client prefers by its `Accept` header, and its content type."""
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
