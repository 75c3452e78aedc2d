"""A summary of a run in a few lines: who is live, how fast it steps, its memory, what is wrong."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.names import legible
from jaxtop.base.units import in_bytes, in_ms
from jaxtop.export.check import Checkup
from jaxtop.model import (
    RULES_BY_NAME,
    Severity,
    State,
    device_views,
    fullest,
    host_views,
    pace_of,
    step_of_run,
    steps_of,
)
from jaxtop.model.findings.advice import advice_outside
from jaxtop.model.findings.sentences import costs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model import Cluster, Finding

# The findings that are written out.
MAX_FINDINGS = 8
_COLOURS = {Severity.CRITICAL: "#d73a49", Severity.WARNING: "#b08800", Severity.INFO: "#0366d6"}


class NotebookSummary(NamedTuple):
    """The summary at one time."""

    title: str
    facts: tuple[str, ...]
    verdict: str
    findings: tuple[Finding, ...]

    @property
    def gist(self) -> str:
        """What changes only when something happens, not with every figure."""
        return " ".join((self.facts[0], self.verdict, *map(str, (each.key for each in self.findings))))

    def to_text(self) -> str:
        lines = [f"{self.title}: {', '.join(self.facts)}", self.verdict]
        for each in self.findings[:MAX_FINDINGS]:
            head, *rest = _words(each)
            lines += [f"{each.severity.sign} {head}: {rest[0]}", *(f"    {words}" for words in rest[1:])]
        return "\n".join([*lines, *self._more()])

    def to_html(self) -> str:
        lines = [f"<div><b>{escape(self.title)}</b> {escape(' · '.join(self.facts))}</div>"]
        lines.append(f"<div>{escape(self.verdict)}</div>")
        for each in self.findings[:MAX_FINDINGS]:
            head, text, *rest = map(escape, _words(each))
            style = f"border-left: 3px solid {_COLOURS[each.severity]}; margin: 4px 0; padding-left: 8px"
            small = "".join(f"<br><small>{words}</small>" for words in rest)
            lines.append(f'<div style="{style}"><b>{each.severity.sign} {head}</b> {text}{small}</div>')
        return "".join([*lines, *(f"<div>{escape(words)}</div>" for words in self._more())])

    def _more(self) -> list[str]:
        left = len(self.findings) - MAX_FINDINGS
        return [f"and {left} more; jaxtop check lists all"] if left > 0 else []


def summary(cluster: Cluster, now: float) -> NotebookSummary:
    checkup = Checkup.of(cluster, now)
    return NotebookSummary(
        legible(checkup.title), tuple(_facts(cluster, now)), checkup.verdict, checkup.findings
    )


def _facts(cluster: Cluster, now: float) -> Iterator[str]:
    views = host_views(cluster, now)
    live = sum(view.state is State.LIVE for view in views)
    yield f"{live} of {len(views)} processes live"
    shown = device_views(cluster, now)
    yield f"{len(shown)} device{'' if len(shown) == 1 else 's'}"
    hosts = [view.current for view in views]
    counts = [count for host in hosts if (count := steps_of(host)) is not None]
    if counts:
        yield f"step {max(counts):,}"
    if (step := step_of_run(hosts)) is not None:
        yield f"{in_ms(step.p50_s * 1e3)} a step"
    if paces := [pace for host in hosts if (pace := pace_of(host)) is not None]:
        yield f"{min(paces):.3g} steps/s"
    for holder in fullest(shown)[:1]:
        limit = f" of {in_bytes(holder.limit_bytes)}" if holder.limit_bytes else ""
        yield f"at most {in_bytes(holder.used_bytes or 0)}{limit} on a device"


def _words(finding: Finding) -> list[str]:
    """Return the title and the text of a finding, what it costs, and the next step."""
    rule = RULES_BY_NAME[finding.rule]
    words = [rule.title, finding.text]
    if cost := costs(finding.cost):
        words.append(f"cost: {cost}")
    return [legible(each) for each in (*words, f"next step: {advice_outside(finding)}")]
