"""Clusters whose programs have operations, and the time that these take."""

from __future__ import annotations

from jaxtop import wire
from jaxtop.features.operations.model import DeviceRates, program_time
from jaxtop.model import Cluster, program_views
from tests.builders import hello

NAME = "jit_step"
RATES = DeviceRates(1e12, 1e11, "probed", "probed")
LOADED = wire.Programs(1, (wire.Program(NAME, "f1"),), (1,), (None,))


def cluster_of(*messages, hosts=1):
    """Return a cluster whose hosts have loaded a program and sent these messages."""
    cluster = Cluster()
    for index in range(hosts):
        for message in (hello(index), LOADED, *messages):
            cluster.apply(f"agent{index}", message, 1.0)
    return cluster


def shown(cluster, rates=RATES):
    """Return the time of the only program of a cluster."""
    (view,) = program_views(cluster, 1.0)
    return program_time(cluster, view, lambda _: rates)
