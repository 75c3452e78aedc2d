"""The explanation of a finding: its text, what to do, what it costs, and the figures that it rests on."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.model import RULES_BY_NAME, Unit
from jaxtop.model.findings.words import costs
from jaxtop.tui.core import text

if TYPE_CHECKING:
    from jaxtop.model import Finding
    from jaxtop.model.finding import Evidence
    from jaxtop.tui.draw.ink import Ink

_WRITERS = {unit.value: text.writer_of(unit) for unit in Unit if unit is not Unit.NUMBER}


def finding_pane(finding: Finding, now: float, ink: Ink, width: int, height: int) -> Text:
    """Return the explanation as lines of this width, at most so many."""
    rule = RULES_BY_NAME[finding.rule]
    lines = [Text(rule.title, ink.bold)]
    lines += _wrapped(finding.text, width)
    lines += [Text(), *_wrapped(f"Do: {finding.advice or rule.advice}", width), Text()]
    if cost := costs(finding.cost):
        lines.append(Text(f"costs {cost}"))
    ago = text.age(now - finding.since)
    since = f"since {text.time_of_day(finding.since)} ({ago})"
    lines.append(Text(f"{since}, confidence {text.share(finding.confidence)}"))
    if finding.consequences:
        lines.append(Text(f"also explains: {', '.join(finding.consequences)}"))
    for each in finding.evidence:
        age = "" if each.at is None else f", {text.age(now - each.at)} ago"
        source = f"  ({each.source}{age})" if each.source or age else ""
        lines.append(Text.assemble(f"{each.name}: {figure_of(each)}", (source, ink.muted)))
    lines += [Text(), *_wrapped(f"Why it matters: {rule.rationale}", width)]
    lines += _wrapped(f"Reported when {rule.threshold}.", width)
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines[:height])


def figure_of(evidence: Evidence) -> str:
    """Return the figure of an evidence with its unit."""
    value, unit = evidence.value, evidence.unit
    if value is None:
        return text.NA
    if isinstance(value, str):
        return value
    if unit == "timestamp":
        return text.time_of_day(value)
    return _WRITERS[unit](value) if unit in _WRITERS else f"{text.plain(value)} {unit}".strip()


def _wrapped(words: str, width: int) -> list[Text]:
    return [Text(line) for line in textwrap.wrap(text.printable(words), max(10, width))]
