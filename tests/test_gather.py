"""When `snapshot` has seen enough of a cluster."""

from __future__ import annotations

import msgspec

from jaxtop.cli.snapshot import gather
from tests import builders


class Frames:
    """A source that gives one frame at a time."""

    is_settled = True

    def __init__(self, *messages):
        self._frames = [builders.frame(builders.agent_id(0), message) for message in messages]

    def poll(self, _):
        return [self._frames.pop(0)] if self._frames else []


def first_hello(state):
    return msgspec.structs.replace(builders.hello(0, processes=1), sources={"arrays": state})


def test_a_snapshot_waits_for_the_first_census_of_a_host_that_counts_its_arrays():
    cluster = gather(Frames(first_hello("on"), builders.pulse(0), builders.arrays()), wait=10)
    assert cluster.hosts[builders.agent_id(0)].arrays.meshes


def test_a_snapshot_does_not_wait_for_arrays_that_are_not_counted():
    source = Frames(first_hello("off: too many"), builders.pulse(0), builders.arrays())
    assert not gather(source, wait=10).hosts[builders.agent_id(0)].arrays.meshes
