"""The table of all rules, in the order of docs/findings.md. One file per kind of cause.

What is where, in the order in which to read it:

- liveness.py: processes that are lost, runs that are stalled
- endings.py: scripts that ended with an exception or before the others
- starts.py: processes that never started, or started again
- meshes.py: meshes that differ between hosts
- correctness.py: hosts with other programs, versions, flags or time
- losses.py: losses that are not finite, or too large
- scalars.py: other scalars that are not finite or rise, and parameters that do not change
- stragglers.py: a process or device that the others wait for
- host_gaps.py: devices that are idle because of the script
- pauses.py: pauses between steps
- checkpoints.py: checkpoints that do not come, or that one process holds up
- garbage.py: garbage collections
- recompiling.py: functions that are compiled again and again
- communication.py: exposed communication
- step_times.py: steps that are slower than before
- hardware.py: slow devices, and errors of their memory
- machines.py: limits and shortages of machines
- memory/: memory of devices and hosts, replication, donation, allocation
- placement.py: arrays on one device, unequal devices of a mesh
- agents.py: parts of the agent that are off
"""

from jaxtop.model.findings.rules import (
    agents,
    checkpoints,
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
    scalars,
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
    *scalars.RULES,
    *stragglers.RULES,
    *host_gaps.RULES,
    *pauses.RULES,
    *checkpoints.RULES,
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
