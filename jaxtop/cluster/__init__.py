"""The model: what is known of the runs, hosts, devices and arrays that a viewer follows.

Pure: no clock, no sockets, no files, no threads. `Cluster.apply` is its only writer, and time is always an
argument; live views, replays and tests all go through it.
"""

from jaxtop.cluster.fold import Cluster
from jaxtop.cluster.host import EMPTY_HOST, Host, Unmet
from jaxtop.cluster.states import State, state_of
from jaxtop.cluster.views import (
    ArrayView,
    DeviceView,
    HostView,
    MeshView,
    Run,
    arrays,
    devices,
    figure,
    hosts,
    launch_rate,
    memory_history,
    meshes,
    runs,
    scaled,
)

__all__ = [
    "EMPTY_HOST",
    "ArrayView",
    "Cluster",
    "DeviceView",
    "Host",
    "HostView",
    "MeshView",
    "Run",
    "State",
    "Unmet",
    "arrays",
    "devices",
    "figure",
    "hosts",
    "launch_rate",
    "memory_history",
    "meshes",
    "runs",
    "scaled",
    "state_of",
]
