"""Alert rules for Prometheus: one for each rule of findings, and one for an exporter that does not answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jaxtop.model import RULES
from jaxtop.model.findings.advice import advice_of_rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import Rule

# The name of the run is a label of its info.
_RUN = "{{ with $labels.name }}{{ . }}{{ else }}{{ $labels.run }}{{ end }}"
_HEAD = """\
# Alert rules for Prometheus, made by `jaxtop exporter --alert-rules`: one for each rule of jaxtop.
# A finding has held for a while before jaxtop reports it, so the rules need no `for`.
groups:
- name: jaxtop
  rules:
"""


def to_yaml() -> str:
    """Return a file of rules. Findings of severity `info` raise no alert."""
    return _HEAD + "".join(line + "\n" for rule in RULES for line in _alert_lines(rule)) + _EXPORTER


def alert_name(rule: Rule) -> str:
    return "Jaxtop" + "".join(word.capitalize() for word in rule.name.split("_"))


def _alert_lines(rule: Rule) -> Iterator[str]:
    found = f'jaxtop_findings{{rule="{rule.name}",severity!="info"}}'
    yield f"  - alert: {alert_name(rule)}"
    yield f"    expr: {found} * on (job, instance, run) group_left (name) jaxtop_run_info > 0"
    yield "    annotations:"
    yield f"      summary: {_quoted(f'{rule.title} in run {_RUN}')}"
    yield f"      description: {_quoted(rule.rationale)}"
    yield f"      action: {_quoted(advice_of_rule(rule))}"


def _quoted(text: str) -> str:
    """Return a text as YAML has it; JSON's strings are YAML."""
    return json.dumps(text, ensure_ascii=False)


_EXPORTER = f"""\
  - alert: JaxtopExporterDown
    expr: up{{job="jaxtop"}} == 0
    for: 2m
    labels:
      severity: warning
    annotations:
      summary: {_quoted("jaxtop exporter at {{ $labels.instance }} does not answer")}
      description: "Nothing is known of its runs meanwhile: no finding raises an alert."
      action: "Start jaxtop exporter again, and read its standard error."
"""
