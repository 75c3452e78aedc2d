"""When `snapshot` has seen enough of a cluster."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from jaxtop import wire
from jaxtop.cli.errors import UserError
from jaxtop.cli.reading.complaints import complaints
from jaxtop.cli.reading.gather import gather
from jaxtop.features.captures import command as capture
from jaxtop.model import Cluster
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, frame


class Frames:
    """A source that gives one frame at a time."""

    is_settled = True
    notes = []  # noqa: RUF012 - never changed

    def __init__(self, *messages):
        self.rejected: Counter[str] = Counter()
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


def known_by_its_roster(**pulse) -> Cluster:
    """A run of which one process is met, and another only listed by it."""
    cluster = Cluster()
    told = [*builders.well(processes=1), frame(agent_id(0), builders.pulse(0, NOW, **pulse), NOW, 3)]
    peer = wire.Peer(agent_id(1), 1, "node01", 1001, 1, "b", "pid:[1]", "10.0.0.1:7411", "10.0.0.1:7410")
    told.append(frame(agent_id(0), wire.Roster(agent_id(0), (peer,), "r1", "train", 2)))
    told.append(frame(agent_id(1), wire.Link(LinkState.UNREACHABLE, "10.0.0.1:7411"), NOW, 0))
    for each in told:
        cluster.feed(each)
    return cluster


def test_a_process_that_cannot_be_dialled_is_shown_as_its_neighbours_see_it():
    source = Frames()
    seen = "host 1 (node01) is not reachable from here; as seen by host 0 (node00), which lists it at "
    (line,) = complaints(known_by_its_roster(), source, NOW)
    assert line == f"{seen}10.0.0.1:7411 and goes on"
    (line,) = complaints(known_by_its_roster(lull=wire.Lull("f", 1)), source, NOW)
    assert line == f"{seen}10.0.0.1:7411, but launches nothing"


def test_a_process_that_refuses_the_key_is_shown_with_what_to_do():
    cluster = known_by_its_roster()
    cluster.feed(frame(agent_id(1), wire.Link(LinkState.REFUSED, "10.0.0.1:7411"), NOW, 0))
    (line,) = complaints(cluster, Frames(), NOW)
    assert line.startswith("host 1 (node01) does not accept your key; copy the run's")
    met = Cluster()
    met.feed(frame(agent_id(1), wire.Link(LinkState.REFUSED, "10.0.0.1:7411"), NOW, 0))
    with pytest.raises(UserError, match="does not accept your key"):
        capture.chosen(met, None)
