"""The model: the state of the runs, hosts, devices and arrays that a viewer follows.

The model is pure: it uses no clock, sockets, files or threads. Only its reducers write to it, and time is
always an argument. Live views, replays and tests all use this one path.

What is where:

- state.py, host.py, windows.py: the state of the model: data only
- past_values.py, shares.py: frozen values in it that keyframes have as they are
- cluster.py: `Cluster.feed` decodes a frame and gives its message to the reducers, in one order, which return
  events: `keyframe.py` puts slices back, `fold.py` folds the messages of agents, then come
  `collectives/joining.py`, `stalls/reports.py`, `exited_runs.py`, `findings/reducer.py`, `wall_time/past.py`
- derived.py: the memo of results that views derive; a result is derived again when an input is another
  object
- hosts.py, devices.py: runs, their hosts in order and in their states, devices
- naming/: whether a run calls its processes hosts or processes; their names in sentences
- liveness.py: the state of a host, and which of its figures are current
- exited_runs.py: which exited processes stay, and for how long
- figures.py, figure_type.py, series.py: the table of figures; what a row is; when one stands
  out; their history
- holders.py: what holds the memory of a process, and whose share of it grows
- finding.py, findings/: what a finding is; the rules (`rules/`, one file per kind of cause), what a
  failed process was like (`postmortem.py`), what rules read (`rule.py`), when they are reported
  (`reducer.py`), which were checked (`coverage.py`), their start and end as alerts (`alerts.py`)
- tuning.py: what the user changed of the rules: an argument of the model, which `cli/settings.py` reads
  from the file
- arrays/: arrays of all processes, their meshes and tree, memory by part, growth, what was alive at a peak
- programs/: programs, launches per variant, compilations
- steps/: steps, and what the script reports of them
- wall_time/: how long launches take, where the time of a process and of a step goes, over the last hour
  too (`past.py`), who is late
- hardware/: published figures of chips, what fast links join, what allocators report
- collectives/: layout of a program over devices (`layout.py`, `groups.py`), windows of all hosts joined
  launch by launch (`joining.py`, `timing.py`), who is late (`verdict.py`, `sentences.py`), what is shown
  (`views.py`, `launch_rates.py`, `sums.py`)
- stalls/: who holds up whom; hangs before the first steps (`lulls.py`); stacks; scripts that ended with an
  exception (`crashes.py`)
- session/: a session over time, the difference of two moments
"""

from jaxtop.model.arrays.at_peak import ArraysAtPeak, DevicePeak, at_peaks
from jaxtop.model.arrays.groups import ArrayView, Span, array_views, distinct, slices
from jaxtop.model.arrays.growth import Grower, growers
from jaxtop.model.arrays.memory import PARTS, MemoryView, Part, memory_total, memory_views
from jaxtop.model.arrays.meshes import MeshView, mesh_views
from jaxtop.model.cluster import Cluster
from jaxtop.model.devices import DeviceView, device_views, fullest, launch_rate, scaled
from jaxtop.model.figure_type import Figure, Scope, Unit
from jaxtop.model.figures import (
    DEVICE_FIGURES,
    FIGURES,
    HOST_FIGURES,
    MEMORY,
    STEP_FIGURES,
    STEP_TIME,
    scalar_figures,
)
from jaxtop.model.finding import Finding, Severity
from jaxtop.model.findings.reducer import reported_findings
from jaxtop.model.findings.rules import RULES, RULES_BY_NAME
from jaxtop.model.host import EMPTY_HOST, Host, run_of
from jaxtop.model.hosts import Run, host_views, newest_hosts, runs
from jaxtop.model.liveness import HostView, State, state_of
from jaxtop.model.naming.families import (
    Group,
    Role,
    family_groups,
    family_of,
    main_run,
    names_of_runs,
    roles_of_runs,
)
from jaxtop.model.programs.views import ProgramView, program_views
from jaxtop.model.series import figure_series, newest_sample, recent, reported_figures
from jaxtop.model.stalls.diagnosis import diagnose
from jaxtop.model.stalls.stacks import stack_groups
from jaxtop.model.state import LoggedEvent
from jaxtop.model.steps.views import pace_of, step_of, step_of_run, steps_of
from jaxtop.model.tuning import HOLDS_FOR, Mute, Tuning
from jaxtop.wire import Buffer, BusyThread, LinkState, Peak, Place, Pulse, Stacks

__all__ = [
    "DEVICE_FIGURES",
    "EMPTY_HOST",
    "FIGURES",
    "HOLDS_FOR",
    "HOST_FIGURES",
    "MEMORY",
    "PARTS",
    "RULES",
    "RULES_BY_NAME",
    "STEP_FIGURES",
    "STEP_TIME",
    "ArrayView",
    "ArraysAtPeak",
    "Buffer",
    "BusyThread",
    "Cluster",
    "DevicePeak",
    "DeviceView",
    "Figure",
    "Finding",
    "Group",
    "Grower",
    "Host",
    "HostView",
    "LinkState",
    "LoggedEvent",
    "MemoryView",
    "MeshView",
    "Mute",
    "Part",
    "Peak",
    "Place",
    "ProgramView",
    "Pulse",
    "Role",
    "Run",
    "Scope",
    "Severity",
    "Span",
    "Stacks",
    "State",
    "Tuning",
    "Unit",
    "array_views",
    "at_peaks",
    "device_views",
    "diagnose",
    "distinct",
    "family_groups",
    "family_of",
    "figure_series",
    "fullest",
    "growers",
    "host_views",
    "launch_rate",
    "main_run",
    "memory_total",
    "memory_views",
    "mesh_views",
    "names_of_runs",
    "newest_hosts",
    "newest_sample",
    "pace_of",
    "program_views",
    "recent",
    "reported_figures",
    "reported_findings",
    "roles_of_runs",
    "run_of",
    "runs",
    "scalar_figures",
    "scaled",
    "slices",
    "stack_groups",
    "state_of",
    "step_of",
    "step_of_run",
    "steps_of",
]  # fmt: skip
