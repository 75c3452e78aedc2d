"""The state as frames: a recording begins with the slices of the model, and hostile ones are refused."""

from __future__ import annotations

import math
import random
from dataclasses import fields

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import Cluster, keyframe
from jaxtop.model.finding import Finding, Findings, Ongoing, Severity
from jaxtop.model.host import KEPT, Host
from jaxtop.model.keyframe import Past, PastArrays, PastEvents, PastSamples, frame_of
from jaxtop.model.past_values import AliveArrays, PastAliveArrays, PeakRise, PeakRises
from jaxtop.model.state import Diagnosis, LoggedEvent, RunStall
from tests import builders
from tests.builders import NOW, agent_id, folded
from tests.made.mutants import mutant, show
from tests.made.sessions import Made, frames
from tests.support import SOAK

BEYOND = 1 << 62
MUTATIONS = 3_000 if SOAK else 30
# What a keyframe has otherwise: in the roster, as times of frames, computed, as windows of the file.
ELSEWHERE = {
    "agent", "peer", "run", "run_name", "process_count", "noun", "link_at", "heard_at", "pulse_at", "window",
}  # fmt: skip
# As the runs of a keyframe.
PACKED = {"arrays_since"}

FINDING = Finding(Severity.WARNING, 0.9, "it grows", about="x", rule="memory growth", run="r1", since=1.0)


def findings(finding=FINDING, **more):
    ongoing = Ongoing(**{"last_at": 2.0, "is_reported": True, "severe_at": 2.0, **more},
                      finding=finding)  # fmt: skip
    return PastEvents(findings=Findings({finding.key: ongoing}, 2.0, {("r1", "restarts"): "muted"}))


def rises(alive=0):
    group = wire.ArrayGroup((4,), "float32", 0, 4, 1, "w")
    then = PastAliveArrays(8_900, 5, (AliveArrays(group, "P()", 1, 4, 8_000),), 1)
    return PeakRises((PeakRise(9, 9_000, alive), None), (then,))


SLICES = {
    "kept": Past(
        PastSamples((8_500_000_000, 10**9), (3, 1), ((0, (1, None)), (1, None))), ((8_000, 2),), rises=rises()
    ),
    "censuses": PastArrays(builders.census()),
    "events": PastEvents(
        (LoggedEvent(9.5, "info", "back", "a1", "is back"),),
        {"r1": RunStall(8.5, 9.5, Diagnosis("r1", 9_000, "warning", "waits", ("a1",), ("a2",)), 9.0)},
    ),
    "findings": findings(),
}
REFUSED = {
    "an event that is no date": PastEvents((LoggedEvent(math.nan, "info", "x", "a", ""),)),
    "a history that is no date": Past(PastSamples((BEYOND, BEYOND), (1, 1))),
    "a history of too many launches": Past(PastSamples((1, 1), (BEYOND, BEYOND))),
    "since when more groups than anybody lists": Past(arrays_since=((1, BEYOND),)),
    "a peak at a census that is not there": Past(rises=rises(alive=1)),
    "a census with a mesh that cannot be": PastArrays(
        replace(builders.census(), meshes=(wire.Mesh((("x", 0),), ()),))
    ),
    "a finding that costs more than there is": findings(FINDING.__class__(
        Severity.WARNING, math.inf, "", rule="memory growth", run="r1")),
    "a finding from before the epoch": findings(FINDING.__class__(
        Severity.WARNING, 0.9, "", rule="memory growth", run="r1", since=-1.0)),
    "a finding under another's name": PastEvents(
        findings=Findings({("a", "b", "c"): Ongoing(FINDING, 2.0, True, 2.0)})
    ),
}  # fmt: skip


def test_every_field_of_a_host_is_in_a_keyframe():
    found = [*keyframe.MESSAGES, *KEPT, *PACKED, *ELSEWHERE]
    assert sorted(found) == sorted(each.name for each in fields(Host))


@pytest.mark.parametrize("name", SLICES)
def test_a_slice_is_read_as_it_was_written(name):
    frame = frame_of(NOW, "", SLICES[name])
    assert keyframe.decode(frame.kind, frame.raw) == SLICES[name]


@pytest.mark.parametrize("name", REFUSED)
def test_a_slice_that_cannot_be_is_refused(name):
    frame = frame_of(NOW, "", REFUSED[name])
    with pytest.raises(wire.Unreadable):
        keyframe.decode(frame.kind, frame.raw)


@pytest.mark.long
@pytest.mark.parametrize("name", SLICES)
def test_no_slice_ends_a_view(name):
    """With odd values in odd places it is refused, or shown."""
    dice, refused = random.Random(name), 0
    for _ in range(MUTATIONS):
        cluster = folded(builders.training())
        sound = frame_of(NOW, agent_id(0), SLICES[name])
        cluster.feed(sound._replace(raw=mutant(sound.raw, dice)))
        refused += bool(cluster.rejected)
        show(cluster, NOW)
    assert 0 < refused < MUTATIONS


def test_kinds_of_slices_are_not_taken_from_agents():
    assert wire.OWN_KINDS - {"link"} == keyframe.KINDS and not keyframe.KINDS & wire.KINDS.keys()


def test_a_keyframe_restores_the_state():
    cluster, again = Cluster(), Cluster()
    for each in frames(Made(hosts=2, devices=4, seconds=60)):
        cluster.feed(each)
    found = list(keyframe.frames(cluster, NOW, has_windows=True))
    with again.restoring():
        for each in sorted(found, key=lambda each: each.kind in keyframe.KINDS):  # as recordings have them
            again.feed(each)
    assert not again.rejected and len(again.findings.ongoing) == len(cluster.findings.ongoing) > 0
    for name in ("hosts", "events", "stalls", "past_pulses", "past_arrays", "dropped", "findings", "windows"):
        assert getattr(again, name) == getattr(cluster, name), name
