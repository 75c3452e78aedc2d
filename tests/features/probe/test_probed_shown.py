"""Beside live figures the app shows what a probe found that the same device can do."""

from __future__ import annotations

import pytest

from jaxtop.wire import Rhythm
from jaxtop.wire.probing import ProbedCollective, ProbedGroup
from tests.builders import frame, hello, pulse
from tests.stage import line, play
from tests.staged import collectives as staged
from tests.staged.probe import of_device, probe


def shown(known, *frames, keys=("2",)):
    said = []

    async def act(stage):
        await stage.press(*keys)
        said.append(stage.text)

    play(act, *frames, size=(200, 50), probe=known)
    return said[0]


def running():
    """A host whose step computes half of what its devices can do, by the probe."""
    said = hello(0)
    rhythm = Rhythm(10, ("step",), mean_us=100_000, milli_per_s=10_000, flops=100_000_000_000)
    return [frame(said.agent, said), frame(said.agent, pulse(0, rhythm=rhythm), sequence=2)]


def test_a_device_shows_what_it_can_do_and_what_of_that_its_step_computes():
    told = shown(probe(devices=[of_device()]), *running())
    assert "probed 2.0TF/s  does 50%" in told
    assert "probed memory 1.0T/s" in told


@pytest.mark.parametrize("other", [{"hostname": "elsewhere"}, {"kind": "another"}, {"local_id": 77}])
def test_a_device_that_was_not_probed_shows_nothing_of_another(other):
    assert "probed" not in shown(probe(devices=[of_device(**other)]), *running())


def test_without_a_probe_nothing_is_said():
    assert "probed" not in shown(None, *running())


def test_a_collective_shows_its_share_of_the_probed_bus_bandwidth():
    frames = staged.late()
    without = line("bus bandwidth", shown(None, *frames, keys=("6",)))
    assert "estimated, as in nccl-tests" in without
    groups = (ProbedGroup(tuple(range(4)), 0.1),)
    known = [
        ProbedCollective("x", "all-reduce", 1, size, 9, 0.1, 0.0, 1.0, 1e15, groups) for size in range(2, 65)
    ]
    document = probe(collectives=known)
    row = line("bus bandwidth", shown(document, *frames, keys=("6",)))
    assert "0% of probed" in row
