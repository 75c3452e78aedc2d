"""Events and findings as log records of OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord

from jaxtop.export.findings import as_value
from jaxtop.export.openmetrics import label_value
from jaxtop.features.metrics.otlp.resources import SCOPE, attributes
from jaxtop.model import Severity, run_of
from jaxtop.model.findings.alerts import ENDS, AlertBook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.features.metrics.otlp.resources import Resources
    from jaxtop.model import Cluster, LoggedEvent
    from jaxtop.model.findings.alerts import Alert

    Values = dict[str, object]

_NUMBERS: dict[str, SeverityNumber] = {
    Severity.INFO: SeverityNumber.INFO,
    Severity.WARNING: SeverityNumber.WARN,
    Severity.CRITICAL: SeverityNumber.ERROR,
}
# Findings have records of their own, with more in them than the events have.
_FINDING = "finding"


class _News(NamedTuple):
    """Something that happened: when, of which kind, in which process or run, and what else is known of it."""

    at: float
    severity: str
    kind: str
    text: str
    where: Values
    more: Values

    def record(self, now: float, resources: Resources) -> ReadableLogRecord:
        record = LogRecord(
            timestamp=int(self.at * 1e9),
            observed_timestamp=int(now * 1e9),
            severity_text=self.severity.upper(),
            severity_number=_NUMBERS.get(self.severity, SeverityNumber.INFO),
            event_name=f"jaxtop.{label_value(self.kind)}",
            body=label_value(self.text),
            attributes=attributes({**self.where, **self.more}),
        )
        return ReadableLogRecord(record, resources.of(self.where)[0], SCOPE)


class Logs:
    """Returns each event once, and each finding when it starts and when it ends."""

    def __init__(self) -> None:
        self._findings = AlertBook(Severity.INFO)
        self._seen: LoggedEvent | None = None

    def take(self, cluster: Cluster, now: float, resources: Resources) -> list[ReadableLogRecord]:
        """Return the records since the last call."""
        return [each.record(now, resources) for each in self._news(cluster, now)]

    def _news(self, cluster: Cluster, now: float) -> Iterator[_News]:
        for event in cluster.events_after(self._seen):
            self._seen = event
            if event.kind != _FINDING:
                yield _News(*event[:3], event.text, _where(cluster, event.agent), {})
        for alert in self._findings.changes(cluster, now):
            finding = alert.finding
            at = alert.at if alert.event == ENDS else finding.since
            where = _where(cluster, finding.subject.agent) or {"run": finding.run}
            yield _News(at, finding.severity.value, _FINDING, alert.title, where, _alert_attributes(alert))


def _where(cluster: Cluster, agent: str) -> Values:
    host = cluster.hosts.get(agent)
    if host is None:
        return {}
    return {"run": run_of(host), "process_index": host.process_index, "hostname": host.hostname}


def _alert_attributes(alert: Alert) -> Values:
    """Return a finding as flat attributes: `finding.rule`, `finding.cost.share_of_step` and so on."""
    flat: Values = {"finding.event": alert.event, "run_name": alert.run_name}
    for name, value in as_value(alert.finding, alert.at).items():
        if isinstance(value, dict):
            flat.update({f"finding.{name}.{key}": each for key, each in value.items()})
        elif not isinstance(value, list | tuple):
            flat[f"finding.{name}"] = value
    return flat
