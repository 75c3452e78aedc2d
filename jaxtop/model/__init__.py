"""The model: the state of the runs, hosts, devices and arrays that a viewer follows.

The model is pure: it uses no clock, sockets, files or threads. Only `Cluster.apply` writes to it, and time is
always an argument. Live views, replays and tests all use this one path.
"""

from jaxtop.model.arrays.at_peak import ArraysAtPeak, AtPeak, at_peaks
from jaxtop.model.arrays.groups import ArrayView, Span, arrays, distinct, slices
from jaxtop.model.arrays.growth import Grower, growers
from jaxtop.model.arrays.memory import PARTS, MemoryView, Part, memory, memory_total
from jaxtop.model.cluster import Cluster
from jaxtop.model.devices import DeviceView, devices, launch_rate, memory_history, scaled
from jaxtop.model.figure_type import Figure, Scope, Unit
from jaxtop.model.figures import DEVICE_FIGURES, FIGURES, HOST_FIGURES, STEP_FIGURES, STEP_TIME
from jaxtop.model.finding import Finding, Severity
from jaxtop.model.findings.observer import findings
from jaxtop.model.findings.rules import RULES, RULES_BY_NAME
from jaxtop.model.host import EMPTY_HOST, Host, run_of
from jaxtop.model.hosts import HostView, Run, host_views, hosts, runs
from jaxtop.model.liveness import State, state_of
from jaxtop.model.meshes import MeshView, meshes
from jaxtop.model.programs import ProgramView, programs
from jaxtop.model.series import recent, reported, series
from jaxtop.model.stalls.diagnosis import diagnose
from jaxtop.model.stalls.stacks import stack_groups
from jaxtop.model.state import LoggedEvent
from jaxtop.model.steps import pace_of, step_of, step_of_run, steps_of
from jaxtop.model.tuning import HOLDS_FOR, Mute, Tuning
from jaxtop.wire import Buffer, BusyThread, Peak, Pulse

__all__ = [
    "DEVICE_FIGURES", "EMPTY_HOST", "FIGURES", "HOLDS_FOR", "HOST_FIGURES", "PARTS", "RULES",
    "RULES_BY_NAME", "STEP_FIGURES", "STEP_TIME", "ArrayView", "ArraysAtPeak", "AtPeak", "Buffer",
    "BusyThread", "Cluster", "DeviceView", "Figure", "Finding", "Grower", "Host",
    "HostView", "LoggedEvent", "MemoryView", "MeshView", "Mute", "Part", "Peak", "ProgramView", "Pulse",
    "Run", "Scope", "Severity", "Span", "State", "Tuning", "Unit", "arrays", "at_peaks", "devices",
    "diagnose", "distinct", "findings", "growers", "host_views", "hosts", "launch_rate",
    "memory", "memory_history", "memory_total", "meshes", "pace_of", "programs", "recent", "reported",
    "run_of", "runs", "scaled", "series", "slices", "stack_groups", "state_of", "step_of",
    "step_of_run", "steps_of",
]  # fmt: skip
