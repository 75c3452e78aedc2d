"""Processes that are lost, ended early, never started or started again; parts of agents that are off."""

from __future__ import annotations

import signal

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import reported_findings
from jaxtop.model.finding import Severity
from jaxtop.model.findings.rules import liveness, starts
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id
from tests.staged.findings import Staged, trains
from tests.support import environment, jax_run, script, until_a_run_is_found, viewer


def only(*indices):
    """Pulses of these processes; the others are silent."""
    return lambda index, at, step: trains(index, at, step) if index in indices else None


def link(run, index, state):
    run.tell(index, wire.Link(LinkState(state), f"10.0.0.{index}:7411"))


# Lost


def test_a_process_that_died_is_critical_and_those_that_died_of_it_come_second():
    run = Staged(4)
    run.train(20)
    link(run, 2, "closed")
    run.train(3, only(0, 1, 3))
    found = run.the("host_lost")
    assert (found.severity, found.text) == (Severity.CRITICAL, "host 2 has died")
    assert found.since == NOW + 20 and found.subject.process_index == 2
    run.train(87, only(0, 1, 3))
    for index in (0, 1, 3):
        link(run, index, "closed")  # nothing follows: the last one leads to a check
    found = run.the("host_lost")
    assert found.text == "host 2 has died first, hosts 0–1, 3 90 s later"
    assert found.since == NOW + 20 and found.subject.process_index == 2


def test_a_process_that_is_not_heard_is_a_warning_while_the_others_go_on():
    run = Staged(3)
    run.train(10)
    link(run, 1, "unreachable")
    run.train(6, only(0, 2))
    found = run.the("host_lost")
    assert (found.severity, found.text) == (Severity.WARNING, "host 1 is not reachable from here")
    link(run, 1, "up")
    run.train(4)
    assert run.found("host_lost") == []


def test_a_process_whose_pulse_is_late_is_not_lost():
    run = Staged(3)
    run.train(10)
    run.train(4, only(0, 2))
    run.train(3)
    assert run.found("host_lost") == []


def stall(index, at, since):
    told = builders.pulse(index, at, launches=round(since - NOW) * 10)
    return replace(told, stall=wire.Stall("train_step", int(since * 1000), 100))


def stalls(run, seconds, silent=()):
    since = run.at
    run.train(seconds, lambda index, at, _step: None if index in silent else stall(index, at, since))


def test_a_stopped_process_explains_the_stall():
    run = Staged(3)
    run.train(20)
    link(run, 1, "silent")
    stalls(run, 12, silent=(1,))
    (found,) = reported_findings(run.cluster)
    assert (found.rule, found.severity, found.text) == ("host_lost", Severity.CRITICAL, "host 1 is stopped")
    assert found.consequences == ("Stalled",)
    assert "SIGCONT" in found.advice


def test_a_stall_is_critical_once_it_has_lasted_unless_its_cause_compiles():
    for is_compiling in (False, True):
        run = Staged(2)
        run.train(20)
        since = run.at

        def pulse(index, at, _step, since=since, is_compiling=is_compiling):
            told = stall(index, at, since)
            if index == 1:
                running = (wire.Compiling("train_step", int(since * 1000)),) if is_compiling else ()
                told = replace(told, stall=None, launches={"train_step": 199}, compiling=running)
                return told if is_compiling else replace(told, lull=wire.Lull("x", int(since * 1000)))
            return told

        run.train(60, pulse)
        assert run.the("stalled").severity is Severity.WARNING
        run.train(70, pulse)
        assert run.the("stalled").severity is (Severity.WARNING if is_compiling else Severity.CRITICAL)


@pytest.mark.parametrize(("cpu", "severity"), [(20, Severity.CRITICAL), (900, Severity.WARNING)])
def test_a_process_alone_that_launches_nothing_for_long_is_critical_unless_it_computes(cpu, severity):
    run = Staged(1)
    run.train(20)
    since = run.at

    def pulse(index, at, _step):
        return replace(stall(index, at, since), host=wire.HostSample(process_cpu_permille=cpu))

    run.train(60, pulse)
    assert run.the("stalled").severity is Severity.WARNING
    run.train(70, pulse)
    assert run.the("stalled").severity is severity


def test_a_stall_whose_cause_is_not_known_yet_is_unchecked():
    """A viewer that has just come must not list it among the rules that found nothing."""
    run = Staged(2, NOW + 100)
    since = run.at - 86
    run.train(2, lambda index, at, _step: stall(index, at, since))
    assert run.found("stalled") == []
    why = run.cluster.findings.unchecked["r1", "stalled"]
    assert why.startswith("nothing was launched for 8") and why.endswith("the cause is not known yet")
    run.train(10, lambda index, at, _step: stall(index, at, since))
    assert run.the("stalled") and ("r1", "stalled") not in run.cluster.findings.unchecked


def test_a_compilation_that_others_wait_for_is_a_note_with_what_it_took_before():
    run = Staged(3)
    run.train(20)
    since = run.at

    def pulse(index, at, _step):
        told = trains(index, at, 200)
        lull = wire.Lull("train_step", int(since * 1000))
        running = (wire.Compiling("evaluate", int(since * 1000)),)
        return replace(told, rhythm=None, **({"compiling": running} if index == 2 else {"lull": lull}))

    for index in range(3):
        past = wire.Compilation(int(run.at * 1000), "evaluate", duration_ms=70_000)
        run.tell(index, wire.Programs(int(run.at * 1000), (), compilations=(past,)))
    run.train(8, pulse)
    assert run.found("stalled") == []
    run.train(20, pulse)
    found = run.the("stalled")
    assert found.severity is Severity.INFO and found.subject.process_index == 2
    assert found.text.startswith("host 2 has been compiling evaluate for 2")
    assert found.text.endswith(", which took 70 s before; hosts 0–1 wait")
    assert ("r1", "stalled") not in run.cluster.findings.unchecked


def test_a_process_that_was_lost_long_before_a_stall_does_not_explain_it():
    run = Staged(4)
    run.train(20)
    link(run, 3, "unreachable")
    run.train(60, only(0, 1, 2))
    stalls(run, 12, silent=(3,))
    assert sorted(each.rule for each in reported_findings(run.cluster)) == ["host_lost", "stalled"]


def test_a_process_that_was_never_reached_is_a_note():
    run = Staged(2)
    peer = wire.Peer(agent_id(2), 2, "far", 1, 1, "c", "pid:[2]", "10.9.9.9:7411", "10.9.9.9:7410")
    run.tell(0, wire.Roster(agent_id(0), (peer,), "r1", "train", 3))
    run.tell(2, wire.Link(LinkState.UNREACHABLE, "10.9.9.9:7411"))
    run.train(5)
    assert run.found("host_lost") == []
    found = run.the("never_started")
    assert found.severity is Severity.INFO and found.text.startswith("host 2 was never reached from here")
    run.tell(2, wire.Link(LinkState.CLOSED, "10.9.9.9:7411"))  # it is gone, so it was not just out of reach
    assert run.found("never_started") == [] and run.the("host_lost").text == "host 2 is gone"


# Ended before the others


def test_a_script_that_ended_while_others_run_is_a_note_and_critical_once_they_stall():
    run = Staged(3)
    run.train(20)
    run.tell(1, wire.Bye(int(run.at * 1000), "ended"))
    run.train(10, only(0, 2))
    assert run.found("ended_early") == []
    run.train(10, only(0, 2))
    found = run.the("ended_early")
    assert (found.severity, found.text) == (Severity.INFO, "host 1 has ended, but hosts 0, 2 still run")
    stalls(run, 12, silent=(1,))
    (found,) = reported_findings(run.cluster)
    assert (found.rule, found.severity) == ("ended_early", Severity.CRITICAL)
    assert found.consequences == ("Stalled",)


def test_a_run_that_ends_and_an_agent_that_is_stopped_are_no_finding():
    run = Staged(3)
    run.train(20)
    run.tell(1, wire.Bye(int(run.at * 1000), "stopped"))
    run.train(30, only(0, 2))
    for index in (0, 2):
        run.tell(index, wire.Bye(int(run.at * 1000), "ended"))
    run.at += 60
    run.tell(None, wire.Link(LinkState.CONNECTING, "elsewhere:1"))
    assert reported_findings(run.cluster) == []


def test_a_run_that_launches_nothing_before_its_end_is_stalled_no_more_once_it_has_finished():
    """A last evaluation or checkpoint takes longer than a step; only an interrupt leaves the stall."""
    for status in (None, wire.INTERRUPTED):
        run = Staged(2)
        run.train(20)
        stalls(run, 12)
        assert run.the("stalled")
        for index in range(2):
            run.tell(index, wire.Bye(int(run.at * 1000), "ended", status=status))
        run.at += 5
        run.tell(None, wire.Link(LinkState.CONNECTING, "elsewhere:1"))
        assert len(run.found("stalled")) == (status is not None)


# Never started


def joins(_index, at, _step):
    """A pulse of a process that has done nothing since the start."""
    return wire.Pulse(int(at * 1000), lull=wire.Lull("", int(NOW * 1000)))


def joining(run, *indices, file="jax/_src/distributed.py"):
    frames = (wire.Place("train.py", 4, "main"), wire.Place(file, 147, "initialize"))
    for index in indices:
        run.tell(index, builders.hello(index, 3, (), run=None, platform=None))
        run.tell(index, wire.Stacks(int(run.at * 1000) + 1, (wire.Thread("main", True, frames),)))


def test_processes_that_wait_for_one_that_does_not_come_name_it():
    run = Staged(2)
    joining(run, 0, 1)
    run.train(20, joins)
    (found,) = reported_findings(run.cluster)
    assert (found.rule, found.severity, found.subject.process_index) == ("never_started", Severity.INFO, 2)
    run.train(14, joins)
    found = run.the("never_started")
    assert found.severity is Severity.WARNING
    seconds = round(run.cluster.findings.checked_at - NOW)
    assert found.text in [
        f"hosts 0–1 have waited {each} s in jax.distributed.initialize: process 2 of 3 was not seen"
        for each in (seconds - 1, seconds)
    ]


def test_processes_that_prepare_data_before_their_first_launch_wait_for_nobody():
    run = Staged(3)
    joining(run, 0, 1, 2, file="train.py")
    run.train(40, joins)
    assert reported_findings(run.cluster) == []


def test_a_process_without_an_agent_is_a_note_after_a_minute():
    run = Staged(2)
    for index in range(2):
        run.tell(index, builders.hello(index, 3))
    run.train(50)
    assert run.found("never_started") == []
    run.train(20)
    found = run.the("never_started")
    assert (found.severity, found.subject.process_index) == (Severity.INFO, 2)
    assert found.text == "process 2 of 3 was never met: its figures are unknown"


def idles(index, at, step):
    return replace(trains(index, at, step), launches={} if index == 2 else {"train_step": step}, step=None)


def test_a_process_that_launches_nothing_while_others_train_is_a_warning():
    run = Staged(3)
    run.train(50, idles)
    assert run.found("never_started") == []
    run.train(20, idles)
    found = run.the("never_started")
    assert found.severity is Severity.WARNING and found.subject.process_index == 2
    assert found.text.startswith("host 2 has launched nothing; the others made ")


def test_launches_that_nobody_counts_and_a_slow_first_minute_are_no_idleness():
    run = Staged(3)
    run.tell(2, builders.hello(2, 3, sources={"launches": "off: JAX checks each launch itself"}))
    run.train(80, idles)
    assert run.found("never_started") == []
    run = Staged(3)
    run.train(80, lambda index, at, step: replace(idles(index, at, step), launches={}))
    assert run.found("never_started") == []


# Started again


def again(run, start):
    """Let process 1 die and come back as another agent."""
    link(run, 1, "closed")
    run.at += 5
    agent = f"{start:016d}"
    hello = builders.hello(1, run.processes, agent=agent, started_ms=int(run.at * 1000))
    for message in (wire.Link(LinkState.UP, "10.0.0.1:7411"), hello, builders.pulse(1, run.at)):
        run.cluster.feed(builders.frame(agent, message, run.at))


def test_a_process_that_was_started_again_is_a_note_for_an_hour_and_a_loop_is_a_warning():
    run = Staged(2)
    run.train(10)
    again(run, 77)
    run.train(4, only(0))
    found = run.the("restarted")
    assert (found.severity, found.text) == (Severity.INFO, "host 1 was started again")
    for start in (78, 79):
        run.cluster.feed(
            builders.frame(
                f"{start - 1:016d}", wire.Link(LinkState.CLOSED, "10.0.0.1:7411"), run.at, sequence=0
            )
        )
        again(run, start)
    run.train(4, only(0))
    found = run.the("restarted")
    assert (found.severity, found.text) == (Severity.WARNING, "host 1 was started 4 times")
    run.at += 3700
    run.train(20, only(0))
    assert run.found("restarted") == []


def test_the_first_start_of_each_process_is_none():
    run = Staged(3)
    run.train(20)
    assert run.found("restarted") == []


# Agents


def with_sources(count, *indices, **sources):
    run = Staged(count)
    for index in indices:
        run.tell(index, builders.hello(index, count, sources={"arrays": "on", **sources}))
    run.train(8)
    return run


def test_parts_that_failed_are_a_warning_where_figures_are_needed_and_else_a_note():
    found = with_sources(3, 1, memory="off: KeyError: 'bytes_in_use'").the("parts_off")
    assert found.severity is Severity.WARNING and found.subject.process_index == 1
    assert found.text == "memory is off on host 1: KeyError: 'bytes_in_use'; no view of device memory"
    found = with_sources(2, 0, 1, hardware="off: NVML Shared Library Not Found").the("parts_off")
    assert (found.severity, found.subject.process_index) == (Severity.INFO, None)
    assert found.text == ("hardware is off: NVML Shared Library Not Found; no view of power, heat and clocks")


def test_parts_that_are_off_for_one_reason_are_one_finding():
    why = "off: MemoryError"
    found = with_sources(2, 0, memory=why, rhythm=why, programs=why, hardware=why).the("parts_off")
    assert found.text.startswith("memory, rhythm, hardware and 1 more are off on host 0: MemoryError")


@pytest.mark.parametrize(
    "sources",
    [
        {"hardware": "off: these devices are the host's own CPUs"},
        {"collectives": "off: switched off (JAXTOP_COLLECTIVES, or collectives= of agent.start)"},
        {"stalls": "off: a person may be typing (interactive interpreter)"},
        {"recording": "off: no space left on device"},  # another rule
        {"programs": "waiting: for the first compilation"},
        {},
    ],
)
def test_what_is_off_on_purpose_or_not_yet_there_is_not_found(sources):
    assert with_sources(2, 0, 1, **sources).found("parts_off") == []


def test_a_limit_of_what_can_be_seen_is_a_note():
    sources = {
        "launches": "off: JAX checks each launch itself (jax_debug_nans, jax_debug_infs)",
        "stalls": "off: not all launches are counted",
    }
    assert with_sources(2, 0, 1, **sources).the("parts_off").severity is Severity.INFO


def test_a_setting_that_is_ignored_is_a_note_on_the_hosts_that_ignore_it():
    why = "JAXTOP_INTERVAL='abc' is not a number; 1 is used"
    run = with_sources(2, 1, settings=f"ignored: {why}")
    found = run.the("setting_ignored")
    assert (found.severity, found.text) == (Severity.INFO, f"{why} on host 1")
    assert found.subject.process_index == 1 and run.found("parts_off") == []
    assert with_sources(2, 0, 1, settings=f"ignored: {why}").the("setting_ignored").text == why


def test_a_black_box_that_is_not_written_is_a_warning():
    run = with_sources(4, 1, 2, recording="off: no space left on device")
    found = run.the("black_box")
    assert found.severity is Severity.WARNING
    assert found.text == "hosts 1–2 write no black box: no space left on device"
    assert with_sources(2, 0, recording="on: /tmp/box").found("black_box") == []


# Real runs

TRAINS = """
import sys, time
from jaxtop import agent
coordinator, count, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
agent.start(name="{name}")
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.distributed.initialize(coordinator, {count}, index)
mesh = Mesh(np.array(jax.devices()), ("data",))
x = jax.make_array_from_callback((8,), NamedSharding(mesh, P("data")), lambda at: np.ones(8, np.float32)[at])
step = jax.jit(lambda x: x * 0.5 + x.sum() * 0.01)
for i in range(100000):
    if {fails}:
        raise RuntimeError("planted")
    x = step(x)
    x.block_until_ready()
    agent.step(i)
    time.sleep(0.05)
"""


OURS = {each.name for each in (*liveness.RULES, *starts.RULES)}


def reported(attached):
    return {each.rule: each for each in reported_findings(attached.cluster)}


@pytest.mark.jax
@pytest.mark.newest
def test_a_process_that_is_stopped_is_one_finding_with_the_stall_inside(tmp_path):
    path = script(tmp_path, TRAINS.format(name="stops", count="count", fails="False"))
    with jax_run(path, 2, 2, env=environment(2)) as started:
        until_a_run_is_found()
        with viewer("stops") as attached:
            attached.until(lambda: all(attached.host(i).pulse.rhythm for i in range(2)))
            attached.look(5)
            assert not OURS & reported(attached).keys()
            started[1].send_signal(signal.SIGSTOP)
            attached.until(
                lambda: (
                    "host_lost" in (found := reported(attached))
                    and "Stalled" in found["host_lost"].consequences
                )
            )
            lost = reported(attached)["host_lost"]
            assert lost.subject.process_index == 1 and lost.severity is Severity.CRITICAL
            assert "Stalled" in lost.consequences and "stalled" not in reported(attached)
            started[1].send_signal(signal.SIGCONT)
            attached.until(lambda: not {"host_lost", "stalled"} & reported(attached).keys())
            started[1].kill()
            attached.until(lambda: "host_lost" in reported(attached))
            assert reported(attached)["host_lost"].text == "process 1 has died"


@pytest.mark.jax
@pytest.mark.newest
def test_processes_that_wait_for_another_to_join_are_found_in_a_real_run(tmp_path):
    path = script(tmp_path, TRAINS.format(name="joins", count="count + 1", fails="False"))
    with jax_run(path, 1, 2, env=environment(2)):
        until_a_run_is_found()
        with viewer("joins") as attached:
            attached.until(lambda: "never_started" in reported(attached))
            text = reported(attached)["never_started"].text
            assert text.endswith(" s in jax.distributed.initialize: process 1 of 2 was not seen"), text
            assert text.startswith("process 0 has waited ")
