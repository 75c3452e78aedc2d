"""The model: what is known of the runs, hosts, devices and arrays that a viewer follows.

Pure: no clock, no sockets, no files, no threads. `Cluster.apply` is its only writer, and time is always an
argument; live views, replays and tests all go through it.
"""

from jaxtop.cluster.arrays import ArrayView, Span, arrays, distinct, slices
from jaxtop.cluster.figures import DEVICE_FIGURES, HOST_FIGURES, Figure, Unit
from jaxtop.cluster.fold import Cluster
from jaxtop.cluster.host import EMPTY_HOST, Host, Unmet
from jaxtop.cluster.memory import PARTS, Grower, KnownMemory, MemoryView, Part, growers, memory, memory_total
from jaxtop.cluster.probed import Probe, ProbedDevice, probed_collective, probed_device
from jaxtop.cluster.programs import Difference, KnownPrograms, ProgramView, differences, programs
from jaxtop.cluster.rhythm import RunStep, StepView, pace_of, step_of, step_of_run, steps_of
from jaxtop.cluster.series import STEP_FIGURES, STEP_TIME, recent, reported, series
from jaxtop.cluster.stacks import StackGroup, stack_groups
from jaxtop.cluster.stalls import Diagnosis, diagnose
from jaxtop.cluster.states import State, state_of
from jaxtop.cluster.views import (
    DeviceView,
    HostView,
    MeshView,
    Run,
    devices,
    figure,
    hosts,
    launch_rate,
    memory_history,
    meshes,
    present,
    run_of,
    runs,
    scaled,
)
from jaxtop.wire import BusyThread, Pulse

__all__ = [
    "DEVICE_FIGURES",
    "EMPTY_HOST",
    "HOST_FIGURES",
    "PARTS",
    "STEP_FIGURES",
    "STEP_TIME",
    "ArrayView",
    "BusyThread",
    "Cluster",
    "DeviceView",
    "Diagnosis",
    "Difference",
    "Figure",
    "Grower",
    "Host",
    "HostView",
    "KnownMemory",
    "KnownPrograms",
    "MemoryView",
    "MeshView",
    "Part",
    "Probe",
    "ProbedDevice",
    "ProgramView",
    "Pulse",
    "Run",
    "RunStep",
    "Span",
    "StackGroup",
    "State",
    "StepView",
    "Unit",
    "Unmet",
    "arrays",
    "devices",
    "diagnose",
    "differences",
    "distinct",
    "figure",
    "growers",
    "hosts",
    "launch_rate",
    "memory",
    "memory_history",
    "memory_total",
    "meshes",
    "pace_of",
    "present",
    "probed_collective",
    "probed_device",
    "programs",
    "recent",
    "reported",
    "run_of",
    "runs",
    "scaled",
    "series",
    "slices",
    "stack_groups",
    "state_of",
    "step_of",
    "step_of_run",
    "steps_of",
]
