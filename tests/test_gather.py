"""When `snapshot` has seen enough of a cluster."""

from __future__ import annotations

import msgspec

from jaxtop.cli.snapshot import gather
from tests import stage


class Frames:
    """A source that gives one frame at a time."""

    is_settled = True

    def __init__(self, *messages):
        self._frames = [stage.frame(stage.agent_id(0), message) for message in messages]

    def poll(self, _):
        return [self._frames.pop(0)] if self._frames else []


def first_hello(state):
    return msgspec.structs.replace(stage.hello(0, processes=1), sources={"arrays": state})


def test_a_snapshot_waits_for_the_first_census_of_a_host_that_counts_its_arrays():
    cluster = gather(Frames(first_hello("on"), stage.pulse(0), stage.arrays()), wait=10)
    assert cluster.hosts[stage.agent_id(0)].arrays.meshes


def test_a_snapshot_does_not_wait_for_arrays_that_are_not_counted():
    source = Frames(first_hello("off: too many"), stage.pulse(0), stage.arrays())
    assert not gather(source, wait=10).hosts[stage.agent_id(0)].arrays.meshes
