"""Findings as plain values, for every command and exporter that reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtop.base.times import timestamp
from jaxtop.model import RULES_BY_NAME
from jaxtop.model.findings.advice import advice_outside

if TYPE_CHECKING:
    from jaxtop.model import Finding


def as_value(finding: Finding, now: float, opens: str = "") -> dict[str, Any]:
    """Return a finding as it stands in JSON; what does not apply is None.

    `opens` is the command that opens the app on it, if its run is not live.
    """
    rule = RULES_BY_NAME[finding.rule]
    return {
        "rule": finding.rule,
        "title": rule.title,
        "severity": finding.severity.value,
        "confidence": round(finding.confidence, 3),
        "since": timestamp(finding.since) if finding.is_dated else None,
        "run": finding.run,
        "subject": {
            name: None if value == "" else value
            for name, value in finding.subject._asdict().items()
            if name != "agent"
        },
        "text": finding.text,
        "advice": advice_outside(finding, opens),
        "cost": finding.cost._asdict(),
        "evidence": [
            {
                "name": each.name,
                "value": each.value,
                "unit": each.unit or None,
                "source": each.source or None,
                "age_s": None if each.at is None else round(max(0.0, now - each.at), 3),
            }
            for each in finding.evidence
        ],
        "proof": {"screen": finding.proof.screen, "filter": finding.proof.filter or None},
        "consequences": finding.consequences,
    }
