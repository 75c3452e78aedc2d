"""The table of all rules, in the order of docs/findings.md. One file per kind of cause."""

from jaxtop.model.findings.rules import (
    agents,
    allocation,
    correctness,
    host_memory,
    liveness,
    losses,
    memory,
    placement,
    replication,
    starts,
    stragglers,
)

RULES = (
    *liveness.RULES,
    *starts.RULES,
    *correctness.RULES,
    *losses.RULES,
    *stragglers.RULES,
    *memory.RULES,
    *host_memory.RULES,
    *replication.RULES,
    *placement.RULES,
    *allocation.RULES,
    *agents.RULES,
)
RULES_BY_NAME = {rule.name: rule for rule in RULES}
