"""Figures of what an engine serves: gauges as they are, counters as rates, histograms as percentiles.

Rates and percentiles are of the time since the last text: what an engine has counted since its start says
little about the present. Series are told apart by those of their labels that differ within a name.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from math import inf, isfinite
from typing import TYPE_CHECKING

from jaxtop.base.names import legible, shorten
from jaxtop_agent.core.waiting import GilYielder
from jaxtop_agent.served.exposition import ServedSample, samples, types

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtop_agent.served.exposition import Labels

# Each pulse has them all.
MOST_FIGURES, LONGEST_NAME = 24, 100
PERCENTILES = {"p50": 0.5, "p99": 0.99}
# What clients of Prometheus say about the process itself.
_OF_PROCESS = ("python_", "process_", "go_", "promhttp_", "jaxtop_")
_BUCKET, _TOTAL = "_bucket", "_total"
# Names with these words come first where there are too many figures.
_FIRST = ("token", "latency", "request", "queue", "wait", "running", "cache", "slot", "batch")
# Parts of a histogram or a summary that have no figure of their own.
_PARTS = ("_sum", "_info", "_gcount", "_gsum")


class ServedFigures:
    """The figures of one text after the other."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, Labels], float] = {}
        self._at: float | None = None

    @property
    def has_counters(self) -> bool:
        """Whether the last text had any; one text alone shows no rates."""
        return bool(self._before)

    def take(self, text: str, at: float) -> dict[str, float]:
        """Return the figures of a text that was read at this time, those that matter most first."""
        kinds = types(text)
        by_name: dict[str, list[ServedSample]] = defaultdict(list)
        release_gil = GilYielder()
        for each in samples(text):
            release_gil()
            if not each.name.startswith(_OF_PROCESS):
                by_name[each.name].append(each)
        seconds = None if self._at is None else at - self._at
        before, self._before, self._at = self._before, {}, at
        found: dict[str, float] = {}
        counted: dict[str, float] = {}  # how often histograms were fed: often all the same
        for name, series in by_name.items():
            release_gil()
            kind = _kind(name, kinds, by_name)
            if kind in ("counter", "count", "histogram"):
                self._before.update({(name, each.labels): each.value for each in series})
            if kind == "gauge":
                found.update(_named(name, series))
            elif kind == "summary":
                found.update(_quantiles(name, series))
            elif kind in ("counter", "count") and seconds:
                rates = [each._replace(value=each.value / seconds) for each in _moved(series, before)]
                into = found if kind == "counter" else counted
                into.update(_named(f"{name.removesuffix(_TOTAL)} /s", rates))
            elif kind == "histogram":
                found.update(_percentiles(name.removesuffix(_BUCKET), _moved(series, before)))
        values = found | counted
        ranked = [name for each in (found, counted) for name in sorted(each, key=_rank)]
        kept = [name for name in ranked if isfinite(values[name])][:MOST_FIGURES]
        return {shorten(legible(name), LONGEST_NAME): values[name] for name in kept}


def _rank(name: str) -> tuple[bool, str]:
    return not any(word in name for word in _FIRST), name


def _kind(name: str, kinds: dict[str, str], by_name: Iterable[str]) -> str:
    """Return what a name counts: by its type, else by its ending; empty if it has no figure of its own."""
    if name.endswith(_BUCKET):
        return "histogram"
    whole = name.removesuffix("_count")
    if name != whole and (f"{whole}{_BUCKET}" in by_name or kinds.get(whole) in ("histogram", "summary")):
        return "count"
    if name.endswith("_created") or (name.endswith(_PARTS) and name not in kinds):
        return ""
    kind = kinds.get(name) or kinds.get(name.removesuffix(_TOTAL), "")
    return (
        kind if kind in ("counter", "gauge", "summary") else "counter" if name.endswith(_TOTAL) else "gauge"
    )


def _moved(series: Iterable[ServedSample], before: dict[tuple[str, Labels], float]) -> list[ServedSample]:
    """Return by how much each series has grown; one that is new or has begun again is left out."""
    pairs = ((each, before.get((each.name, each.labels))) for each in series)
    return [
        each._replace(value=each.value - then)
        for each, then in pairs
        if then is not None and each.value >= then
    ]


def _named(name: str, series: Iterable[ServedSample], word: str = "") -> Iterator[tuple[str, float]]:
    """Yield each series with the labels that tell it apart from the others of its name."""
    listed = list(series)
    values: dict[str, set[str]] = defaultdict(set)
    for each in listed:
        for label, value in each.labels:
            values[label].add(value)
    for each in listed:
        own = ",".join(f"{label}={value}" for label, value in each.labels if len(values[label]) > 1)
        yield f"{name}{{{own}}}{word}" if own else f"{name}{word}", each.value


def _quantiles(name: str, series: Iterable[ServedSample]) -> Iterator[tuple[str, float]]:
    for word, share in PERCENTILES.items():
        of_share = [each for each in series if ("quantile", f"{share:g}") in each.labels]
        yield from _named(name, of_share, f" {word}")


def _percentiles(name: str, moved: Iterable[ServedSample]) -> Iterator[tuple[str, float]]:
    """Yield the percentiles of what a histogram has counted, straight between the bounds of a bucket."""
    groups: dict[Labels, list[tuple[float, float]]] = defaultdict(list)
    for each in moved:
        labels = dict(each.labels)
        try:
            bound = float(labels.pop("le"))
        except (KeyError, ValueError):
            continue
        groups[tuple(labels.items())].append((bound, each.value))
    for word, share in PERCENTILES.items():
        known = {labels: _percentile(sorted(buckets), share) for labels, buckets in groups.items()}
        found = [ServedSample(name, labels, value) for labels, value in known.items() if value is not None]
        yield from _named(name, found, f" {word}")


def _percentile(buckets: list[tuple[float, float]], share: float) -> float | None:
    """Return the value below which this share is; None without any. Beyond the last bound, that bound."""
    total = buckets[-1][1]
    if total <= 0 or buckets[-1][0] != inf or len(buckets) < 2:
        return None
    wanted = share * total
    for (low, below), (high, upto) in pairwise([(0.0, 0.0), *buckets]):
        if upto >= wanted:
            if high == inf:
                return low
            start = min(low, high) if low or high > 0 else high
            return start + (high - start) * (wanted - below) / (upto - below) if upto > below else high
    return None
