"""Where the wall time of a process goes, from launch counters, windows and samples of the main thread."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.export.json import to_document
from jaxtop.model import Cluster, keyframe
from jaxtop.model.launch_times import measured_in
from jaxtop.model.parts import NAMES, mean_of, parts
from tests import staged_collectives
from tests.builders import NOW, agent_id, frame, hello, pulse
from tests.made_windows import Made

LINE = wire.Place("train.py", 54, "load")
MS = 1000


def window(*launches, at=NOW, program="jit_train_step", exposed=0):
    """A window with launches of a program at these times and of these durations, in milliseconds."""
    return wire.Window(
        int(at * 1000),
        1_000_000,
        1,
        ((program, "f"),),
        launches=tuple(
            wire.Launch(0, i, start * MS, took * MS, exposed * MS, exposed * MS)
            for i, (start, took) in enumerate(launches)
        ),
    )


def activity(*, script=0, launch=0, wait=0, compiling=0, lines=None, at=NOW, **more):
    lines = (wire.ActiveLine(LINE, wire.SCRIPT, script),) if lines is None else lines
    return wire.Activity(int(at * 1000), 20_000, (script, launch, wait, compiling), lines, **more)


def rhythm(*functions, per_second=5.0, p50_ms=200):
    return wire.Rhythm(1, functions or ("train_step",), 50, 100, p50_ms * MS, int(per_second * 1000), 50,
                       p50_ms * MS, p50_ms * MS, p50_ms * MS)  # fmt: skip


def run(*messages, launches=50, functions=("train_step",), rhythms=None, pulses=(0, 1)):
    """A process that launches its functions so often in ten seconds."""
    cluster, agent = Cluster(), agent_id(0)
    cluster.feed(frame(agent, wire.Link("up", "10.0.0.1:7411"), NOW - 20, 0))
    cluster.feed(frame(agent, hello(0, 1), NOW - 20))
    counts = dict.fromkeys(functions, launches) if isinstance(launches, int) else launches
    listed = tuple(wire.Program(f"jit_{each}", "f", 4, 4) for each in counts)
    cluster.feed(frame(agent, wire.Programs(1, listed, seen_ms=(5,) * len(listed)), NOW - 20))
    for i in pulses:
        counted = {name: 7 + i * count for name, count in counts.items()}
        seen = wire.Pulse(int((NOW - 10 + 10 * i) * 1000), launches=counted, rhythm=rhythms or rhythm())
        cluster.feed(frame(agent, seen, NOW - 10 + 10 * i))
    for each in messages:
        cluster.feed(frame(agent, each, NOW))
    return cluster


def of_run(*messages, **more):
    found = parts(run(*messages, **more), NOW).get(agent_id(0))
    if found is not None:
        assert sum(found[: len(NAMES)]) == pytest.approx(1) and min(found[: len(NAMES)]) >= 0
    return found


EVEN = ((0, 100), (200, 100), (400, 100), (600, 100))


def test_a_sleep_before_each_step_is_a_gap_of_the_host():
    found = of_run(window(*EVEN), activity(script=50, wait=50))
    assert (found.compute, found.communication, found.waiting) == (pytest.approx(0.5), 0, 0)
    assert (found.host_gap, found.unknown) == (pytest.approx(0.5), pytest.approx(0))
    assert found.accounted == pytest.approx(1) and found.at == NOW


def test_a_stall_every_twenty_steps_is_a_gap_though_no_window_saw_it():
    found = of_run(window((0, 98), (100, 98), (200, 98)), activity(script=50, wait=50))
    assert (found.compute, found.host_gap) == (pytest.approx(0.49), pytest.approx(0.5, abs=0.01))


def test_time_that_nothing_explains_is_unknown():
    found = of_run(window((0, 100), (100, 100), (200, 100)), activity(wait=100))
    assert (found.host_gap, found.unknown) == (0, pytest.approx(0.5))
    assert of_run(window((0, 100), (100, 100), (200, 100))).unknown == pytest.approx(0.5)


def test_a_script_that_runs_while_its_devices_compute_makes_no_gap():
    found = of_run(window((0, 198), (200, 198), (400, 198)), activity(script=80, wait=20))
    assert (found.compute, found.host_gap) == (pytest.approx(0.99), pytest.approx(0.01))


def test_steps_that_were_slower_in_a_window_fill_the_time_and_no_more():
    found = of_run(window((0, 300), (300, 300), (600, 300)), activity(script=50, wait=50))
    assert (found.compute, found.host_gap, found.unknown) == (pytest.approx(1), 0, 0)


@pytest.mark.parametrize(
    ("launches", "samples", "compute"),
    [
        # Ten steps a second of 63 ms, after 37 ms of input; in windows all launches take longer or shorter.
        ((63, 100), {"script": 37, "wait": 63}, 0.63),
        ((90, 127), {"script": 37, "wait": 63}, 0.71),
        ((120, 157), {"script": 37, "wait": 63}, 0.76),
        ((120, 157), {}, 0.76),
        ((50, 87), {"script": 37, "wait": 63}, 0.5),
        # The window contains a rare pause, or the script runs while its devices compute.
        ((90, 145), {"script": 4, "wait": 96}, 0.9),
        ((95, 96), {"script": 80, "wait": 20}, 0.95),
    ],
)
def test_a_busy_machine_in_a_window_does_not_hide_the_gap_that_it_shows(launches, samples, compute):
    took, apart = launches
    seen = window(*((i * apart, took) for i in range(20)))
    more = [activity(**samples)] if samples else []
    found = of_run(seen, *more, launches=100, rhythms=rhythm(per_second=10.0, p50_ms=100))
    assert found.compute == pytest.approx(compute, abs=0.03)
    assert samples.get("script") != 37 or found.host_gap == pytest.approx(0.37, abs=0.15)


def test_launches_of_a_window_are_measured_once_though_the_rhythm_has_changed():
    waited, changed = {}, replace(rhythm(), since_ms=int(NOW * 1000) - 60_000, before_us=90_000)
    cluster, agent = run(window(*EVEN), rhythms=changed), agent_id(0)
    before = measured_in(cluster, cluster.hosts[agent], waited)
    cluster.feed(frame(agent, wire.Pulse(int((NOW + 1) * 1000), rhythm=changed), NOW + 1))
    assert measured_in(cluster, cluster.hosts[agent], waited) is before


def test_launches_that_overlap_count_once():
    both = ((0, 100), (0, 100), (200, 100), (200, 100))
    found = of_run(window(*both), activity(script=50, wait=50), launches=100)
    assert found.compute == pytest.approx(0.5)


def test_exposed_communication_and_the_wait_in_it():
    found = of_run(window(*EVEN, exposed=40), activity(script=50, wait=50))
    assert (found.compute, found.communication, found.waiting) == (
        pytest.approx(0.3),
        pytest.approx(0.2),
        0,
    )


def test_an_evaluation_that_no_window_contains_is_unknown_and_a_step_that_none_contains_leaves_nothing():
    launches = {"train_step": 40, "evaluate": 2}
    found = of_run(window((0, 200), (200, 200), (400, 200)), activity(wait=90, script=10), launches=launches)
    assert (found.compute, found.unknown) == (pytest.approx(0.8), pytest.approx(0.1))
    assert of_run(window(*EVEN, program="jit_evaluate"), launches=launches) is None
    assert of_run(launches=50) is None


def test_while_the_rate_of_a_new_function_is_unknown_so_are_the_parts():
    told = wire.Rhythm(1, (), 50, 100, 200_000, 5_000, 50, 200_000, 200_000, 200_000)
    seen = window(*EVEN), activity(script=50, wait=50)
    often = wire.Pulse(int(NOW * 1000), launches={"other_step": 40}, rhythm=told)
    assert of_run(*seen, often) is None
    once = wire.Pulse(int(NOW * 1000), launches={"evaluate": 1}, rhythm=told)
    assert of_run(*seen, once).compute == pytest.approx(0.5)


def test_a_program_that_is_in_no_later_window_keeps_its_times():
    first = window((0, 500), (500, 500), program="jit_evaluate", at=NOW - 5)
    launches = {"train_step": 40, "evaluate": 4}
    found = of_run(first, window((0, 200), (200, 200), (400, 200)), activity(wait=100), launches=launches)
    assert found.compute == pytest.approx(1)


def test_windows_show_which_process_waits_for_which():
    """The wait of 60 ms counts as far as it is exposed: 48 ms of each of 3.6 launches a second."""
    cluster = Cluster()
    for each in staged_collectives.run(Made(4, 4, late=3)):
        cluster.feed(each)
    for index in range(4):
        for at, launches in ((NOW + 1, 22), (NOW + 11, 58)):
            cluster.feed(frame(agent_id(index), pulse(index, at, 4, launches, rhythm=rhythm()), at))
    found = parts(cluster, NOW + 11)
    early, late = found[agent_id(0)], found[agent_id(3)]
    assert early.waiting == pytest.approx(0.17, abs=0.02) and late.waiting < 0.05
    mean = mean_of(found.values())
    assert sum(mean[: len(NAMES)]) == pytest.approx(1) and late.waiting < mean.waiting < early.waiting
    assert mean_of([]) is None


def test_steps_that_have_stopped_have_no_parts():
    still = wire.Pulse(
        int(NOW * 1000), rhythm=rhythm(), stall=wire.Stall("train_step", int(NOW * 1000) - 9000, 200)
    )
    assert of_run(window(*EVEN), still) is None


def test_the_document_and_a_keyframe_have_the_parts():
    cluster = run(window(*EVEN), activity(script=50, wait=50))
    (host,) = to_document(cluster, NOW)["hosts"]
    assert host["step"]["parts"] == {
        "compute": 0.5, "communication": 0.0, "waiting": 0.0, "host_gap": 0.5, "unknown": 0.0,
    }  # fmt: skip
    again = Cluster()
    for at, agent, message in keyframe.messages(cluster, NOW):
        again.feed(frame(agent, message, at))
    assert again.hosts[agent_id(0)].launched == cluster.hosts[agent_id(0)].launched
    assert parts(again, NOW)[agent_id(0)].compute == pytest.approx(0.5)
