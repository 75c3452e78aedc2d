"""Faults that `jaxtop demo --fault` plants, one file per family. Importing this does not import JAX."""

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
