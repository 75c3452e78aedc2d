"""Alerts: the start and the end of a finding, as the JSON of a command or a webhook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from jaxtop import __version__
from jaxtop.export.check import SIGNS
from jaxtop.export.findings import as_value
from jaxtop.model import RULES_BY_NAME, Finding, Severity, findings, runs
from jaxtop.model.findings.words import costs
from jaxtop.names import legible
from jaxtop.times import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.model import Cluster

SCHEMA = 1
STARTS, ENDS = "start", "end"
# Discord refuses longer messages.
LONGEST = 1900


class Alert(NamedTuple):
    """That a finding starts or ends, in a run of this name."""

    event: str
    at: float
    run_name: str
    finding: Finding

    @property
    def title(self) -> str:
        """One line that says what is wrong, or what no longer is."""
        finding = self.finding
        what = f"{RULES_BY_NAME[finding.rule].title}: {finding.text}"
        if self.event == STARTS:
            return legible(f"{SIGNS[finding.severity]} {self.run_name}: {what}")
        return legible(f"✓ {self.run_name}: ended after {max(0.0, self.at - finding.since):.0f} s: {what}")

    @property
    def lines(self) -> list[str]:
        """The title, and for a start the cost and the next step."""
        if self.event != STARTS:
            return [self.title]
        words = costs(self.finding.cost)
        advice = self.finding.advice or RULES_BY_NAME[self.finding.rule].advice
        return [self.title, *([f"Cost: {words}"] if words else []), legible(f"Next: {advice}")]


class AlertBook:
    """The findings that were alerted, so that each has one alert at its start and one at its end."""

    def __init__(self, least: Severity) -> None:
        self._least = least
        self._open: dict[tuple[str, str, str], Alert] = {}

    def changes(self, cluster: Cluster, at: float) -> list[Alert]:
        """Return the alerts since the last call."""
        ended = []
        for key, alert in list(self._open.items()):
            # What another finding explains now has not ended.
            ongoing = cluster.findings.ongoing.get(key)
            if ongoing is None or not ongoing.is_reported:
                del self._open[key]
                ended.append(alert._replace(event=ENDS, at=at))
        started = []
        names = {run.id: run.name or run.id for run in runs(cluster, at)}
        for finding in findings(cluster):
            before = self._open.get(finding.key)
            # One that was a warning and is now critical has another alert.
            least = self._least.rank if before is None else before.finding.severity.rank + 1
            if finding.severity.rank >= least:
                alert = Alert(STARTS, at, names.get(finding.run, finding.run), finding)
                self._open[finding.key] = alert
                started.append(alert)
        return ended + started


def sample_alert(at: float) -> Alert:
    """Return an alert that tries the way to a person."""
    text = "this is a test of jaxtop watch, nothing is wrong"
    return Alert(STARTS, at, "test", Finding("stalled", Severity.CRITICAL, 1.0, "test", text, since=at))


def to_plain(alert: Alert) -> dict[str, Any]:
    """Return what commands and webhooks receive; docs/checking.md describes it."""
    return {
        "schema": SCHEMA,
        "jaxtop": __version__,
        "event": alert.event,
        "at": timestamp(alert.at),
        "run": {"id": alert.finding.run, "name": alert.run_name},
        "title": alert.title,
        "finding": as_value(alert.finding, alert.at),
    }


def _to_slack(alert: Alert) -> dict[str, Any]:
    text = "\n".join(alert.lines)
    # Slack reads mentions and links in angle brackets.
    return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


def _to_discord(alert: Alert) -> dict[str, Any]:
    return {"content": "\n".join(alert.lines)[:LONGEST], "allowed_mentions": {"parse": []}}


FORMS: dict[str, Callable[[Alert], dict[str, Any]]] = {
    "plain": to_plain,
    "slack": _to_slack,
    "discord": _to_discord,
}


def body(alert: Alert, form: str) -> bytes:
    return msgspec.json.encode(FORMS[form](alert))
