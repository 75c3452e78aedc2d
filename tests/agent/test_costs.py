"""Agents say what each of their parts costs, and `jaxtop doctor` shows it; who does not answer is named."""

from __future__ import annotations

import json
import os
import signal
import threading
import time

import pytest

from jaxtop import wire
from jaxtop.base import processes
from jaxtop.cli.machine.costs import NO_ANSWER, CostReport, ask
from jaxtop.store import runfiles
from jaxtop_agent.service.messages import costs
from tests.stories import hello
from tests.support import eventually, jaxtop, training


def test_the_cpu_time_of_threads_comes_from_their_own_clocks():
    until, names = threading.Event(), {}

    def burn():
        names[threading.get_native_id()] = "burner"
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass
        until.wait()

    burner = threading.Thread(target=burn)
    burner.start()
    try:
        eventually(lambda: costs({}, names, 1).threads_us.get("burner", 0) >= 200_000, every=0.05)
        told = costs({"arrays": 0.25}, {**names, 1 << 21: "ended"}, 2.0)
    finally:
        until.set()
        burner.join()
    assert told.collectors_us == {"arrays": 250_000}
    assert told.threads_us.keys() == {"burner"} and told.for_ms == 2000


def test_the_costliest_comes_first_and_nothing_is_said_of_what_costs_nothing():
    said = wire.Costs(
        at_ms=0,
        for_ms=100_000,
        collectors_us={"devices": 0, "arrays": 120_000, "host": 180_000},
        threads_us={"publisher": 60_000, "sampler": 310_000, "registrar": 10},
    )
    told = CostReport(hello(0), wire.decode_as(wire.Costs, wire.encode(said)))
    assert told.words() == (
        "costs 0.37 % of a core over 100 s: sampler 0.31 (host 0.18, arrays 0.12), publisher 0.06"
    )
    assert told.as_json()["collectors"] == pytest.approx({"devices": 0, "arrays": 0.12, "host": 0.18})


def test_an_agent_that_cannot_be_asked_is_reported_in_one_line():
    """Its run file has an address that is none; doctor says so, and goes on."""
    here = processes.here()
    odd = hello(
        0, requests="nowhere", pid=os.getpid(), boot=here.boot, pid_namespace=here.pid_namespace,
        process_started_ticks=processes.start_ticks(os.getpid()),
    )  # fmt: skip
    runfiles.write(odd)
    (told,) = ask()
    assert told.costs is None and told.why_not.startswith("has no valid address")


@pytest.mark.jax
@pytest.mark.newest
def test_doctor_says_what_each_part_of_a_live_agent_costs_and_who_does_not_answer(tmp_path):
    """Of two processes one is stopped: its line says so, and the other is told all the same."""
    with training(tmp_path) as run:
        os.kill(run.processes[1].pid, signal.SIGSTOP)
        done = jaxtop("doctor", "--json")
        os.kill(run.processes[1].pid, signal.SIGCONT)
        text = jaxtop("doctor").stdout
        pids = [process.pid for process in run.processes]
        run.ask("stop")
    document = json.loads(done.stdout)
    answered, silent = sorted(document["costs"], key=lambda each: pids.index(each["pid"]))
    assert {"arrays", "programs", "host", "devices"} <= answered["collectors"].keys()
    assert {"publisher", "sampler", "registrar", "network"} <= answered["threads"].keys()
    assert 0 < sum(answered["collectors"].values()) <= answered["threads"]["sampler"]
    assert answered["cpu_percent"] == pytest.approx(sum(answered["threads"].values()))
    assert answered["for_s"] > 0
    assert (silent["why_not"], silent["cpu_percent"], silent["threads"]) == (NO_ANSWER, None, None)
    words = {each["text"] for each in document["findings"] if each["check"] == f"pid {pids[1]}"}
    assert NO_ANSWER in words
    assert text.count("% of a core over") == 2
