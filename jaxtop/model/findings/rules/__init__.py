"""The table of all rules, in the order of docs/findings.md. One file per kind of cause."""

from jaxtop.model.findings.rules import agents, correctness, liveness, losses, starts, stragglers

RULES = (
    *liveness.RULES,
    *starts.RULES,
    *correctness.RULES,
    *losses.RULES,
    *stragglers.RULES,
    *agents.RULES,
)
RULES_BY_NAME = {rule.name: rule for rule in RULES}
