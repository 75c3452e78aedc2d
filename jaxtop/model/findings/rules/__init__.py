"""The table of all rules, in the order of docs/findings.md. One file per kind of cause."""

from jaxtop.model.findings.rules import liveness, stragglers

RULES = (*liveness.RULES, *stragglers.RULES)
RULES_BY_NAME = {rule.name: rule for rule in RULES}
