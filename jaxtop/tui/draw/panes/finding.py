"""The explanation of a finding: its text, what to do, what it costs, and the figures that it rests on."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.model import RULES_BY_NAME, Unit
from jaxtop.model.findings.advice import advice_in_app
from jaxtop.model.findings.sentences import costs
from jaxtop.model.tuning import AS_DECLARED, HOLDS_FOR, Number
from jaxtop.tui.core import text

if TYPE_CHECKING:
    from jaxtop.model import Finding
    from jaxtop.model.finding import Evidence
    from jaxtop.model.findings.coverage import Coverage
    from jaxtop.model.findings.rule import Rule
    from jaxtop.model.tuning import Tuning
    from jaxtop.tui.draw.ink import Ink

_WRITERS = {unit.value: text.writer_of(unit) for unit in Unit if unit is not Unit.NUMBER}


def finding_pane(
    finding: Finding, now: float, ink: Ink, width: int, height: int, *, tuning: Tuning = AS_DECLARED
) -> Text:
    """Return the explanation as lines of this width, at most this many."""
    rule = RULES_BY_NAME[finding.rule]
    lines = [Text(rule.title, ink.figure)]
    lines += _wrapped(finding.text, width)
    lines += [Text(), *_wrapped(f"Next step: {advice_in_app(finding)}", width), Text()]
    if cost := costs(finding.cost):
        lines.append(Text(f"costs {cost}"))
    ago = units.age(now - finding.since)
    since = f"{'since' if finding.is_dated else 'found at'} {text.time_of_day(finding.since)} ({ago} ago)"
    lines.append(Text(f"{since}, confidence {units.share(finding.confidence)}"))
    if finding.consequences:
        lines.append(Text(f"explains: {', '.join(finding.consequences)}"))
    for each in finding.evidence:
        age = "" if each.at is None else f", {units.age(now - each.at)} ago"
        source = f"  ({each.source}{age})" if each.source or age else ""
        lines.append(Text.assemble(f"{each.name}: {figure_of(each)}", (source, ink.note)))
    lines += [Text(), *_wrapped(f"Why it matters: {rule.rationale}", width)]
    lines += _wrapped(" ".join([f"Reported when {rule.threshold}.", *rule.details]), width)
    if changed := _changed(rule, tuning):
        lines += _wrapped(f"In your config.toml: {'; '.join(changed)}.", width)
    return _fitted(lines, width, height)


def coverage_pane(found: Coverage, ink: Ink, width: int, height: int) -> Text:
    """Return which rules could not be checked, by reason, as lines of this width, at most this many."""
    lines = [Text(found.in_short, ink.figure)]
    for reason, titles in found.unchecked.items():
        lines += [Text(), *_wrapped(f"Not checked: {', '.join(titles)}", width), *_wrapped(reason, width)]
    return _fitted(lines, width, height)


def _changed(rule: Rule, tuning: Tuning) -> list[str]:
    """Return what the user changed of the threshold, with the defaults."""
    numbers = (*rule.numbers, Number(HOLDS_FOR, rule.holds_for, "seconds for which it must hold"))
    return [
        f"{each.name} = {value:g} instead of {each.default:g} ({each.meaning})"
        for each in numbers
        if (value := tuning.value(rule.name, each)) != each.default
    ]


def _fitted(lines: list[Text], width: int, height: int) -> Text:
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines[:height])


def figure_of(evidence: Evidence) -> str:
    """Return the figure of an evidence with its unit."""
    value, unit = evidence.value, evidence.unit
    if value is None:
        return units.NA
    if isinstance(value, str):
        return value
    if unit == "timestamp":
        return text.time_of_day(value)
    return _WRITERS[unit](value) if unit in _WRITERS else f"{units.plain(value)} {unit}".strip()


def _wrapped(words: str, width: int) -> list[Text]:
    return [Text(line) for line in textwrap.wrap(text.printable(words), max(10, width))]
