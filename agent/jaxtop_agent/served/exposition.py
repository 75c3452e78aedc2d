"""The samples in a text of Prometheus or OpenMetrics.

https://prometheus.io/docs/instrumenting/exposition_formats
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)\s*(\{.*?\})?\s+(\S+)(?:\s+[-\d.eE+]+)?\s*(?:# .*)?$", re.ASCII)
_LABELS = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\\n]|\\.)*)"\s*(?:,|$)', re.ASCII)
_ESCAPED = re.compile(r"\\(.)")
_NEW_LINE = {"n": "\n"}
# The length of a sample line; longer lines are skipped.
LONGEST_LINE = 8192
# The labels of an engine's series are the same in every text.
MAX_LABEL_TEXTS = 2048

Labels = tuple[tuple[str, str], ...]


class ServedSample(NamedTuple):
    """One value of a series, which its name and labels tell apart."""

    name: str
    labels: Labels
    value: float


def samples(text: str) -> Iterator[ServedSample]:
    """Yield the samples; what is not a sample is left out."""
    for line in text.split("\n"):
        if line.startswith("#") or len(line) > LONGEST_LINE:
            continue
        found = _SAMPLE.match(line)
        if found is None:
            continue
        name, labels, value = found.groups()
        try:
            yield ServedSample(name, _labels(labels or "{}"), float(value))
        except ValueError:
            continue


def types(text: str) -> dict[str, str]:
    """Return the types of metrics that the text states, by name."""
    said = (line.split() for line in text.split("\n") if line.startswith("# TYPE "))
    return {words[2]: words[3] for words in said if len(words) == 4}


@lru_cache(maxsize=MAX_LABEL_TEXTS)
def _labels(braced: str) -> Labels:
    inside, at, found = braced[1:-1].strip(), 0, []
    while at < len(inside):
        label = _LABELS.match(inside, at)
        if label is None:
            raise ValueError(f"no labels: {braced}")
        value = _ESCAPED.sub(lambda each: _NEW_LINE.get(each[1], each[1]), label[2])
        found.append((label[1], value))
        at = label.end()
    return tuple(found)
