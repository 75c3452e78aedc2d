"""Who holds up whom: told from pulses, links and stacks, once, and in words that fit into a line."""

from __future__ import annotations

import re
import time

import pytest

from jaxtop import wire
from jaxtop.export.json import to_document
from jaxtop.model import Cluster, diagnose, stack_groups
from jaxtop.model.naming.sentences import how_often
from jaxtop.model.stalls.lulls import running_of
from tests.staged.stalls import BEGAN, MAIN, VALUE, Beginning, Run
from tests.stories import hello, link, pulse, tell

STEP = (MAIN, wire.Place("jaxlib/<compiled>", 91, "step"))
LOADER = (MAIN, wire.Place("train.py", 88, "load_batch"))
SAVING = (MAIN, wire.Place("save.py", 7, "save"))
TRACING = (MAIN, wire.Place("jax/_src/interpreters/partial_eval.py", 9, "trace"))


# Without a rhythm


@pytest.fixture
def beginning():
    run = Beginning(2)
    run.stand(0, 1, at=VALUE)
    run.launches = {0: 1, 1: 1}
    for i in range(2):
        run.say(i, hello(i, process_count=2, started_ms=1, platform="cpu"))
    return run


def test_a_host_with_fewer_launches_is_reported_without_a_rhythm(beginning):
    beginning.launches[1] = 0
    beginning.stand(1, at=LOADER)
    beginning.lull(9)
    assert not beginning.stall_events
    beginning.lull(9)
    assert beginning.stall_events == [
        ("warning", "host 0 waits in jit_step; host 1 has not launched it: train.py:88 load_batch")
    ]
    beginning.stands.clear()
    beginning.go_on()
    assert [" ".join(text.split()[:2]) for _, text in beginning.stall_events][1:] == ["launches resumed"]


def test_hosts_that_all_wait_for_their_first_launch_are_reported_unless_they_compute(beginning):
    beginning.lull(60, cpu=990)
    assert not beginning.stall_events
    assert [running_of(host) for host in beginning.cluster.hosts.values()] == [("step", 60)] * 2
    beginning.lull(10, cpu=30)
    assert "nothing launched by hosts 0–1" in beginning.text


def test_a_host_that_gets_little_of_a_crowded_machine_computes_all_the_same(beginning):
    beginning.lull(60, cpu=120, pressure=900)
    assert not beginning.stall_events
    beginning.lull(10, cpu=120, pressure=100)
    assert "nothing launched by hosts 0–1" in beginning.text


def test_a_process_that_hangs_soon_after_its_first_steps_is_reported_without_a_rhythm():
    alone = Beginning(1)
    alone.say(0, hello(0, process_count=1, started_ms=1, platform="cpu"))
    alone.launches = {0: 60}
    alone.stand(0, at=LOADER)
    alone.lull(25, cpu=10, longest_ms=800)
    assert not alone.stall_events
    alone.cluster.check(alone.now)
    assert "nothing was launched for 25 s" in alone.cluster.findings.unchecked["r1", "stalled"]
    alone.lull(15, cpu=10, longest_ms=800)
    ((severity, text),) = alone.stall_events
    assert severity == "warning"
    assert re.match(r"nothing launched for 3\d s \(before for 800ms at most\): it is at train.py:88", text)


@pytest.mark.parametrize(
    ("launches", "cpu", "longest_ms", "role"),
    [(3, 10, 800, None), (60, 900, 800, None), (60, 10, 30_000, None), (60, 10, 800, "engine")],
    ids=["no steps yet", "computes in Python", "was as long before", "serves"],
)
def test_other_processes_without_a_rhythm_may_launch_nothing(launches, cpu, longest_ms, role):
    alone = Beginning(1)
    alone.say(0, hello(0, process_count=1, started_ms=1, platform="cpu", role=role))
    alone.launches = {0: launches}
    alone.stand(0, at=LOADER)
    alone.lull(60, cpu=cpu, longest_ms=longest_ms)
    assert not alone.stall_events


def test_a_launch_that_computes_is_shown_as_running(beginning):
    beginning.lull(60, cpu=990)
    document = to_document(beginning.cluster, beginning.now)
    assert [host["running"] for host in document["hosts"]] == [{"function": "step", "for_s": 60}] * 2


def test_hosts_that_have_not_begun_wait_for_nothing(beginning):
    """They load their data, each for itself, for as long as that takes."""
    beginning.launches = {0: 0, 1: 0}
    beginning.stand(0, 1, at=LOADER)
    beginning.lull(120)
    assert not beginning.stall_events


# Who it is


@pytest.mark.parametrize("where", [STEP, VALUE])
def test_the_host_that_has_not_launched_what_others_wait_in_is_named_with_its_line(where):
    run = Run()
    run.stand(*range(7), at=where)
    run.stand(7, at=LOADER)
    run.launches[7] -= 1
    run.go_on()
    assert run.stall_events == [
        ("critical", "hosts 0–6 wait in jit_step; host 7 has not launched it: train.py:88 load_batch")
    ]
    assert run.diagnosis().odd == ("r1-7",)
    assert run.diagnosis().waiting == tuple(f"r1-{i}" for i in range(7))


@pytest.mark.parametrize(("cpu", "severity"), [(20, "critical"), (900, "warning"), (None, "warning")])
def test_of_two_processes_one_that_waits_for_an_idle_one_is_all_of_the_others(cpu, severity):
    run = Run(2)
    run.stand(0, at=STEP)
    run.stand(1, at=LOADER)
    run.launches[1] -= 1
    run.go_on(cpu=cpu)
    assert [each for each, _ in run.stall_events] == [severity]


def test_where_launches_tell_nothing_stacks_do():
    run = Run()
    run.stand(*range(7), at=STEP)
    run.stand(7, at=LOADER)
    run.go_on()
    assert run.text == "hosts 0–6 wait in jit_step; host 7 is at train.py:88 load_batch"


def test_it_may_be_most_of_them_that_hold_up_one():
    run = Run()
    run.stand(*range(7), at=LOADER)
    run.stand(7, at=STEP)
    run.go_on()
    assert run.text == "host 7 waits in jit_step; hosts 0–6 are at train.py:88 load_batch"
    assert len(run.diagnosis().odd) == 7


def test_hosts_counted_from_different_moments_are_not_compared_by_launches():
    run = Run(3)
    run.stand(0, 1, at=STEP)
    run.stand(2, at=LOADER)
    run.launches[2] += 20  # its agent began earlier: by the counters the others are behind
    run.go_on()
    assert run.diagnosis().odd == ("r1-2",)


def test_if_no_process_waits_those_at_another_line_than_most_are_named():
    run = Run(5)
    run.stand(0, 1, 2, at=(MAIN,))
    run.stand(3, at=LOADER)
    run.stand(4, at=SAVING)
    run.go_on()
    assert (
        run.text
        == "hosts 0–2 are at train.py:91 main; hosts 3–4 are at train.py:88 load_batch, save.py:7 save"
    )


@pytest.mark.parametrize(("where", "words"), [(STEP, "train.py:91 main"), (LOADER, "train.py:88 load_batch")])
def test_if_all_stacks_are_alike_no_process_is_accused(where, words):
    run = Run()
    run.stand(*range(8), at=where)
    run.go_on()
    assert run.text.endswith(f"all are at {words}; which one blocks the others is unknown")
    assert run.diagnosis().odd == ()


def test_of_two_processes_at_different_lines_that_do_not_wait_neither_is_named():
    run = Run(2)
    run.stand(0, at=SAVING)
    run.stand(1, at=LOADER)
    run.go_on()
    assert run.diagnosis().odd == () and "is unknown" in run.text


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("dead", "has died"),
        ("closed", "has died"),
        ("silent", "is stopped"),
        ("deaf", "is blocked"),
        ("unreachable", "is not reachable from here"),
    ],
)
def test_a_host_that_is_lost_is_the_cause(state, words):
    run = Run(4)
    run.silent.add(2)
    run.say(2, link(state))
    run.stand(0, 1, 3, at=STEP)
    run.go_on()
    assert run.stall_events == [("critical", f"hosts 0–1, 3 wait in jit_step; host 2 {words}")]
    assert run.diagnosis().odd == ("r1-2",)


def test_a_host_that_was_lost_long_before_is_not_the_cause():
    run = Run(4)
    run.silent.add(2)
    run.say(2, link("dead"))
    run.go_on(5)
    run.now += 60
    for i in (0, 1, 3):
        stall = wire.Stall("step", int((run.now - 6) * 1000), 1000)
        thread = wire.Thread("MainThread", True, LOADER if i == 3 else STEP)
        at_ms = int(run.now * 1000)
        run.say(i, wire.Stacks(at_ms, (thread,)), pulse(at_ms=at_ms, stall=stall))
    assert run.diagnosis().odd == ("r1-3",)


def test_a_process_that_ended_in_order_is_not_missed():
    run = Run(2)
    run.say(1, wire.Bye(0, "ended"), link("closed"))
    run.silent.add(1)
    run.stand(0, at=LOADER)
    run.go_on()
    assert "host 1" not in run.text


def test_compiling_is_not_hanging():
    """It is named with its duration, and alarms nobody."""
    run = Run(3)
    run.compiling[1] = "evaluate"
    run.stand(0, 2, at=STEP)
    run.go_on()
    ((severity, text),) = run.stall_events
    assert severity == "warning" and text.startswith("host 1 has been compiling evaluate for ")
    assert text.endswith(" s; the others wait")


def test_a_process_alone_is_reported_with_its_line():
    run = Run(1)
    run.stand(0, at=LOADER)
    run.go_on(6)
    assert run.stall_events == [
        (
            "warning",
            "nothing launched for 12 s (usually at least once a second): it is at train.py:88 load_batch",
        )
    ]


def test_without_stacks_the_stall_is_still_reported():
    run = Run(3)
    run.stand(0, 1, 2, at=None)
    run.go_on()
    assert run.text.startswith("nothing launched by hosts 0–2 for ")


def test_the_collective_is_named_if_it_can_be_only_one():
    run = Run(3)
    run.stand(0, 1, at=STEP)
    run.stand(2, at=LOADER)
    group = wire.ReplicaGroups((3,), ((0, 3, 1),))
    psum = wire.Collective("all-reduce.3", "all-reduce", "f32[]", 4, 0)
    one = wire.Inventory(1, "jit_step", "f", 3, groups=(group,), collectives=(psum,))
    run.say(0, one)
    run.go_on()
    assert run.text.startswith("hosts 0–1 wait in jit_step (all-reduce.3); ")
    run.say(0, wire.Inventory(1, "jit_step", "f", 3, groups=(group,), collectives=(psum, psum)))
    assert "all-reduce" not in run.diagnosis().text


def test_if_only_the_script_reports_steps_no_program_is_invented():
    run = Run(3)
    run.stand(0, 1, at=STEP)
    run.stand(2, at=LOADER)
    run.go_on(1)
    for i in range(3):
        run.say(i, pulse(at_ms=int(run.now * 1000), stall=wire.Stall("agent.step()", 1, 1000)))
    assert run.diagnosis().text.startswith("hosts 0–1 wait in the code after agent.step(); host 2 ")


# How often


def test_it_is_reported_once_and_that_it_goes_on_once():
    run = Run(3)
    run.stand(0, 1, at=STEP)
    run.stand(2, at=LOADER)
    run.go_on(60)
    run.stands.clear()
    run.go_on(20)
    assert [severity for severity, _ in run.stall_events] == ["critical", "info"]
    # The last launch was 6 s before the beginning, 67 s before the first pulse without a stall. The check of
    # that second sees the other hosts' earlier pulses, and the next check is a second later.
    assert run.stall_events[1][1] == "launches resumed after 68 s without a launch"
    assert run.diagnosis() is None and not run.cluster.stalls


def test_it_is_reported_again_when_more_is_known():
    run = Run(3)
    run.stand(0, 1, 2, at=None)
    run.go_on(10)
    run.stand(0, 1, at=STEP)
    run.stand(2, at=LOADER)
    run.go_on(3)
    run.silent.add(2)
    run.say(2, link("dead"))
    run.go_on(10)
    texts = [text for _, text in run.stall_events]
    assert len(texts) == 3
    assert "load_batch" in texts[1] and "has died" in texts[2]


def test_a_process_that_dies_long_after_the_stall_began_is_not_its_cause():
    """Whoever ends a run that hangs must still learn why it hung."""
    run = Run(3)
    run.stand(0, 1, at=STEP)
    run.stand(2, at=LOADER)
    run.launches[2] -= 1
    run.go_on(40)
    (told,) = run.stall_events
    for index in (2, 1, 0):
        run.silent.add(index)
        run.say(index, link("dead"))
        run.go_on(3)
    assert run.stall_events == [told] and run.cluster.stalls["r1"].reported.text == told[1]


def test_a_stall_has_its_time_also_where_a_recording_begins_with_a_later_state():
    """Of the keyframes of several black boxes, the last ones are up to a minute newer than the first."""
    run = Run(2)
    run.stand(0, at=STEP)
    run.stand(1, at=LOADER)
    run.go_on(1)
    began, run.now = run.diagnosis().began, run.now + 50
    run.go_on(1)
    assert diagnose(run.cluster, "r1", run.now - 50).began == pytest.approx(began, abs=1.5)


def test_a_short_stop_of_a_run_is_not_reported():
    """Hosts notice one after the other; before all have, nobody is blamed."""
    run = Run(3)
    run.stand(0, at=STEP)
    run.go_on(1)
    run.stands.clear()
    run.go_on(10)
    assert run.stall_events == []


def test_live_and_replay_tell_the_same():
    first, again = Run(3), Run(3)
    for run in (first, again):
        run.stand(0, 1, at=STEP)
        run.stand(2, at=LOADER)
        run.go_on(20)
        run.stands.clear()
        run.go_on(5)
    assert first.cluster == again.cluster and first.stall_events == again.stall_events


def test_a_thousand_hosts_are_one_line_and_looked_at_once_a_second(monkeypatch):
    run = Run(1024)
    looks = []
    monkeypatch.setattr(
        "jaxtop.model.stalls.reports.diagnose", lambda *facts: looks.append(1) or diagnose(*facts)
    )
    odd = tuple(range(3, 1024, 5))
    run.stand(*(i for i in range(1024) if i not in odd), at=STEP)
    run.stand(*odd, at=LOADER)
    begun = time.monotonic()
    run.go_on(4)
    print("seconds for each second of 1,024 hosts:", (time.monotonic() - begun) / 4)
    assert len(looks) == 4
    assert len(run.text) < 300 and "more" in run.text


# Where they stand


def test_hosts_are_grouped_by_their_line_and_not_by_frames_inside_jax():
    run = Run(4)
    run.stand(0, at=VALUE)
    run.stand(1, at=VALUE[:2])
    run.stand(2, at=LOADER)
    run.stand(3, at=TRACING)
    run.go_on(1)
    groups = stack_groups(run.cluster)
    assert [(group.agents, group.text, group.is_waiting, group.is_making) for group in groups] == [
        (("r1-0", "r1-1"), "train.py:91 main", True, False),
        (("r1-2",), "train.py:88 load_batch", False, False),
        (("r1-3",), "train.py:91 main", False, True),
    ]


def test_what_python_and_libraries_do_inside_is_not_the_place():
    run = Run(1)
    inside = (
        wire.Place("torch/utils/data/dataloader.py", 5, "get"),
        wire.Place("python3.11/queue.py", 171, "get"),
    )
    run.stand(0, at=(*LOADER, *inside))
    run.go_on(1)
    (group,) = stack_groups(run.cluster)
    assert (group.text, group.is_waiting) == ("train.py:88 load_batch", False)


def test_a_program_that_is_installed_has_a_place_too():
    run = Run(1)
    run.stand(
        0,
        at=(
            wire.Place("python3.11/runpy.py", 1, "run"),
            wire.Place("maxtext/train.py", 5, "loop"),
            *VALUE[1:],
        ),
    )
    run.go_on(1)
    (group,) = stack_groups(run.cluster)
    assert (group.text, group.is_waiting) == ("maxtext/train.py:5 loop", True)


def test_a_blocked_host_with_a_long_interval_is_missed_like_any_other():
    """It may have gone on until shortly before the others stood still, though its last pulse is older."""
    cluster = Cluster()
    for i in (0, 1):
        for message in (link("up"), hello(i, interval_ms=30_000), pulse(launches={"step": 9})):
            tell(cluster, (BEGAN, f"r1-{i}", message))
    stall = wire.Stall("step", round((BEGAN + 35) * 1000), 1000)
    for seconds in range(60, 181, 30):
        at = BEGAN + seconds
        tell(cluster, (at, "r1-0", pulse(at_ms=round(at * 1000), stall=stall)))
    assert diagnose(cluster, "r1", BEGAN + 180).text == "host 0 waits in jit_step; host 1 is blocked"


def test_how_often_something_is_usually_launched_is_known_to_a_second():
    assert [how_often(each) for each in (0.05, 1.0, 2.54)] == ["at least once a second"] * 2 + ["every 2.5 s"]
