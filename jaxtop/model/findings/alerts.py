"""Alerts: the start and the end of a finding, for whoever is to learn of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.names import legible
from jaxtop.model.findings.advice import advice_outside
from jaxtop.model.findings.reducer import reported_findings
from jaxtop.model.findings.rules import RULES_BY_NAME
from jaxtop.model.findings.sentences import costs
from jaxtop.model.naming.families import names_of_runs

if TYPE_CHECKING:
    from jaxtop.model.finding import Finding, FindingKey, Severity
    from jaxtop.model.state import ClusterState

STARTS, ENDS = "start", "end"


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
            return legible(f"{finding.severity.sign} {self.run_name}: {what}")
        return legible(f"✓ {self.run_name}: ended after {max(0.0, self.at - finding.since):.0f} s: {what}")

    @property
    def lines(self) -> list[str]:
        """The title, and for a start the cost and the next step."""
        if self.event != STARTS:
            return [self.title]
        words = costs(self.finding.cost)
        advice = advice_outside(self.finding)
        return [self.title, *([f"Cost: {words}"] if words else []), legible(f"Next step: {advice}")]


class AlertBook:
    """The findings that were alerted, so that each has one alert at its start and one at its end."""

    def __init__(self, least: Severity) -> None:
        self._least = least
        self._open: dict[FindingKey, Alert] = {}

    def changes(self, cluster: ClusterState, at: float) -> list[Alert]:
        """Return the alerts since the last call."""
        ended = []
        for key, alert in list(self._open.items()):
            # What another finding explains now has not ended.
            ongoing = cluster.findings.ongoing.get(key)
            if ongoing is None or not ongoing.is_reported:
                del self._open[key]
                ended.append(alert._replace(event=ENDS, at=at))
        started = []
        names = names_of_runs(cluster, at)
        for finding in reported_findings(cluster):
            before = self._open.get(finding.key)
            # One that was a warning and is now critical has another alert.
            least = self._least.rank if before is None else before.finding.severity.rank + 1
            if finding.severity.rank >= least:
                alert = Alert(STARTS, at, names.get(finding.run, finding.run), finding)
                self._open[finding.key] = alert
                started.append(alert)
        return ended + started
