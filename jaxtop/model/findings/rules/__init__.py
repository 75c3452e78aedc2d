"""The table of all rules, in the order of docs/findings.md. One file per kind of cause."""

from jaxtop.model.findings.rules import (
    agents,
    communication,
    correctness,
    endings,
    garbage,
    hardware,
    host_gaps,
    liveness,
    losses,
    machines,
    meshes,
    pauses,
    placement,
    recompiling,
    starts,
    step_times,
    stragglers,
)
from jaxtop.model.findings.rules.memory import allocation, devices, donation, hosts, replication

RULES = (
    *liveness.RULES,
    *endings.RULES,
    *starts.RULES,
    *meshes.RULES,
    *correctness.RULES,
    *losses.RULES,
    *stragglers.RULES,
    *host_gaps.RULES,
    *pauses.RULES,
    *garbage.RULES,
    *recompiling.RULES,
    *communication.RULES,
    *step_times.RULES,
    *hardware.RULES,
    *machines.RULES,
    *devices.RULES,
    *hosts.RULES,
    *replication.RULES,
    *placement.RULES,
    *donation.RULES,
    *allocation.RULES,
    *agents.RULES,
)
RULES_BY_NAME = {rule.name: rule for rule in RULES}
