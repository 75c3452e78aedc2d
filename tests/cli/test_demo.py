"""The demo: a real training run of several processes, seen from another shell, that ends as it should."""

from __future__ import annotations

import os
import re
import signal
from contextlib import contextmanager

import pytest

from jaxtop.model.findings.reducer import reported_findings
from jaxtop.store import runfiles
from jaxtop_agent.demo.faults import FAULTS
from tests.support import SOAK, eventually, group, in_a_group, jaxtop, snapshot, viewer

# The demo compiles a real model, which takes its time on a busy machine.
pytestmark = [pytest.mark.jax, pytest.mark.newest, pytest.mark.timeout(400)]

REPEATS = range(10 if SOAK else 1)
DURATION = 60 if SOAK else 5


def demo(folder, *words, devices=4):
    """A demo without a screen, as a shell starts it."""
    return in_a_group(folder, "demo", "--headless", *words, devices=devices)


@contextmanager
def watched(hosts):
    """A viewer that has seen every process of the demo take steps. (Snapshots would take CPU from it.)"""
    eventually(lambda: sum(each.hello.run is not None for each in runfiles.find()) == hosts)
    with viewer() as attached:
        attached.until(lambda: all(steps(attached, i) > 1 for i in range(hosts)))
        yield attached


def steps(attached, index):
    step = attached.host(index).pulse.step
    return step.calls if step else 0


def losses(text):
    """The losses before and after, in the words of the last line."""
    first, last = re.search(r"done: loss ([\d.]+) -> ([\d.]+) over \d+ steps", text.splitlines()[-1]).groups()
    return float(first), float(last)


def assert_ended_quietly(process, folder, status):
    """The demo ends with this status, without complaints, and with nothing left behind."""
    assert process.wait() == status
    assert group(process) == []
    assert (folder / "err").read_text() == ""
    assert runfiles.find() == []


@pytest.mark.parametrize("_", REPEATS)
def test_the_demo_trains_while_another_shell_looks_on_until_ctrl_c(home, _):
    with demo(home, "--hosts", 2, "--devices", 2, "--memory-limit", "32M") as process:
        with watched(2) as attached:
            before = [steps(attached, i) for i in (0, 1)]
            attached.until(lambda: all(steps(attached, i) > before[i] for i in (0, 1)))
        status, document = snapshot()
        assert status == 0
        assert [(host["state"], len(host["devices"])) for host in document["hosts"]] == [("live", 2)] * 2
        assert [run["name"] for run in document["runs"]] == ["demo"]
        assert {axis["name"]: axis["size"] for axis in document["meshes"][0]["axes"]} == {
            "data": 2,
            "model": 2,
        }
        assert all(host["launches"] and host["step"]["metrics"]["loss"] > 0 for host in document["hosts"])
        memory = [device["memory"] for host in document["hosts"] for device in host["devices"]]
        assert all(each["used_bytes"] > 100_000 and each["source"] == "arrays" for each in memory)
        assert all((each["limit_bytes"], each["limit_source"]) == (32 << 20, "simulated") for each in memory)
        assert memory[0]["parts"]["free"] == memory[0]["limit_bytes"] - memory[0]["used_bytes"]
        assert jaxtop("ls").stdout.splitlines()[1].split()[:5] == [
            "demo",
            document["runs"][0]["id"],
            "2",
            "of",
            "2",
        ]
        os.killpg(process.pid, signal.SIGINT)
        assert_ended_quietly(process, home, 130)


def test_a_demo_of_one_process_with_one_device_ends_when_its_time_is_up_and_has_learned(home):
    """Whatever the shell's own flags say of devices."""
    with demo(home, "--hosts", 1, "--devices", 1, "--duration", DURATION, devices=4) as process:
        with watched(1) as attached:
            assert len(attached.cluster.hosts) == len(attached.host(0).hello.devices) == 1
        assert_ended_quietly(process, home, 0)
    first, last = losses((home / "out").read_text())
    assert last < (0.8 * first if SOAK else first)


@pytest.mark.parametrize("_", REPEATS)
@pytest.mark.parametrize("moment", ["at once", "while it starts"])
def test_ctrl_c_ends_the_demo_quietly_with_nothing_left_behind(home, moment, _):
    with demo(home, "--hosts", 2, "--devices", 1) as process:
        if moment == "at once":
            eventually(lambda: len(group(process)) == 3, every=0.01)
        else:
            eventually(lambda: len(runfiles.find()) == 2, every=0.01)
        os.killpg(process.pid, signal.SIGINT)
        assert_ended_quietly(process, home, 130)


def test_a_demo_whose_shell_was_killed_does_not_train_on(home):
    with demo(home, "--hosts", 2, "--devices", 1) as process:
        eventually(lambda: len(runfiles.find()) == 2)
        process.kill()
        eventually(lambda: group(process) == [])
    assert runfiles.find() == []


def test_a_planted_fault_is_announced_and_found_and_the_loss_of_a_process_is_reported(home):
    """By the demo itself, and to viewers: to who was there, and to who comes later."""
    with demo(home, "--hosts", 2, "--mesh", "data=2", "--fault", "stopped", "--fault-after", 3) as process:
        with watched(2) as attached:
            assert not [each for each in reported_findings(attached.cluster) if each.severity == "critical"]
            attached.until(lambda: "host_lost" in {each.rule for each in reported_findings(attached.cluster)})
            [found] = [each for each in reported_findings(attached.cluster) if each.rule == "host_lost"]
            assert found.subject.process_index == 1
            announced = [
                line for line in (home / "out").read_text().splitlines() if line.startswith("fault ")
            ]
            assert [line.split()[:3] for line in announced] == [["fault", "stopped", "begins"]]
            os.kill(attached.host(1).pid, signal.SIGKILL)
            print("died after", attached.until_state({1: "died"}))
        status, document = snapshot()
        assert status == 1
        assert document["hosts"][1]["state"] in ("died", "gone")
        eventually(lambda: "process 1 was killed by SIGKILL" in (home / "err").read_text())
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
        assert group(process) == []
    assert len((home / "err").read_text().splitlines()) <= 2


def test_the_faults_are_listed_with_one_line_each():
    lines = jaxtop("demo", "--fault", "list").stdout.splitlines()
    assert len(lines) == len(FAULTS) + 1 >= 20
    assert all(
        line.split()[0] == fault.name and line.endswith(fault.text)
        for line, fault in zip(lines, FAULTS, strict=False)
    )
    assert lines[-1].split()[0] == "tour"
