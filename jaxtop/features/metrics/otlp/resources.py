"""Runs and processes as resources of OpenTelemetry, with attributes by its semantic conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from jaxtop import __version__
from jaxtop.export.openmetrics import label_value
from jaxtop.export.samples import labels_of
from jaxtop.model import runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.model import Cluster, Host

    Attributes = dict[str, str | int | float]

SCOPE = InstrumentationScope("jaxtop", __version__)


class _Place(NamedTuple):
    """What labels say about the process that a sample belongs to; of a run as a whole only the run."""

    run: object
    process_index: object = None
    hostname: object = None
    pid: object = None


class Resources:
    """The resources of the current runs and processes, by what the labels of their samples say."""

    def __init__(self, cluster: Cluster, now: float, before: Resources | None = None) -> None:
        """Take over unchanged resources from before, because making one is slow."""
        # It has what the environment variable OTEL_RESOURCE_ATTRIBUTES says.
        self.base: Resource = before.base if before else Resource.create()
        self._before = before.made if before else {}
        self.made: dict[tuple[tuple[str, object], ...], Resource] = {}
        self._of: dict[_Place, tuple[Resource, int]] = {}
        for run in runs(cluster, now):
            of_run = {
                "service.name": run.name or run.id,
                "service.namespace": "jaxtop",
                "jaxtop.run.id": run.id,
            }
            self._of[_Place(run.id)] = self._resource(of_run), 0
            for view in run.hosts:
                host = view.host
                place = _place(labels_of(run.id, host))
                started = 0 if host.hello is None else host.hello.started_ms * 1_000_000
                self._of[place] = self._resource({**of_run, **_process_attributes(host)}), started
        self._before = {}

    def of(self, where: Mapping[str, object]) -> tuple[Resource, int]:
        """Return the resource of a sample, and when its process started, in nanoseconds; 0 if unknown."""
        place = _place(where)
        return self._of.get(place) or self._of.get(_Place(place.run)) or (self.base, 0)

    def _resource(self, values: Mapping[str, object]) -> Resource:
        converted = attributes(values)
        key = tuple(converted.items())
        self.made[key] = self._before.get(key) or self.base.merge(Resource(converted))
        return self.made[key]


def _place(where: Mapping[str, object]) -> _Place:
    return _Place(*(where.get(name) for name in _Place._fields))


def _process_attributes(host: Host) -> dict[str, object]:
    hello = host.hello
    found: dict[str, object] = {
        "service.instance.id": host.agent,
        "host.name": host.hostname,
        "process.pid": host.pid,
        "jaxtop.process.index": host.process_index,
    }
    if hello is not None:
        found |= {
            "process.runtime.version": hello.python,
            "jax.version": hello.jax,
            "jax.platform": hello.platform,
        }
    return found


def attributes(values: Mapping[str, object]) -> Attributes:
    """Return the values that are known, as numbers, and texts that can be encoded."""
    return {
        name: value if isinstance(value, int | float) else label_value(value)
        for name, value in values.items()
        if value is not None
    }
