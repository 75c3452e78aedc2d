"""Faults that `jaxtop demo --fault` plants, one file per family. Importing this does not import JAX.

What is where, in the order in which to read it:

- fault.py: what a fault is, and what a training loop calls
- planting.py: plants faults at the steps that all processes agree on
- slow.py: faults that cost time in steps
- lost.py: faults by which the run stops
- network.py: faults of the network
- memory.py: faults that cost memory
- programs.py: faults in what the devices compute
- several.py: several faults together
- schedule.py: when a fault begins, and the tour through several
"""

from jaxtop_agent.demo.faults import lost, memory, network, programs, several, slow
from jaxtop_agent.demo.faults.fault import VARIANTS, Fault

FAULTS: tuple[type[Fault], ...] = (
    *slow.FAULTS,
    *lost.FAULTS,
    *network.FAULTS,
    *memory.FAULTS,
    *programs.FAULTS,
    *several.FAULTS,
)
FAULTS_BY_NAME = {fault.name: fault for fault in FAULTS}

__all__ = ["FAULTS", "FAULTS_BY_NAME", "VARIANTS", "Fault"]
