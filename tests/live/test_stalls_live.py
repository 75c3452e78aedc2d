"""Runs that really stand still: who holds them up is told, and nothing is told of runs that do not."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from subprocess import PIPE

import pytest

from jaxtop import wire
from jaxtop.model import newest_hosts, stack_groups
from jaxtop.store import runfiles
from tests.agent.test_agent_failures import BOOM, ends_well
from tests.agent.test_agent_failures import training as training_with
from tests.support import (
    PYTHON,
    ROOT,
    Training,
    environment,
    eventually,
    free_port,
    processes,
    script,
    viewer,
)

pytestmark = [pytest.mark.jax, pytest.mark.newest]

PROGRAM = ROOT / "tests" / "programs" / "stalls.py"
LOADER = next(i for i, line in enumerate(PROGRAM.read_text().splitlines(), 1) if "time.sleep(0.05)" in line)
# Enough for a rhythm: a look a second, and a few that were disturbed by what was compiled at first.
STEADY = 14


@contextmanager
def standing(home, count=3, **more):
    """Processes that take a step a second together, and a viewer that was there from the beginning."""
    coordinator = f"127.0.0.1:{free_port()}"
    env = environment(1, STEER=str(home), **more)
    commands = [[PYTHON, PROGRAM, coordinator, count, i] for i in range(count)]
    run = Training(home, home)
    with processes(*commands, env=env, stdout=PIPE, stderr=PIPE) as run.processes:
        eventually(lambda: len(run.hellos()) == count)
        with viewer("stalls") as attached:
            attached.until(lambda: all(run.steps(i) >= STEADY for i in range(count)))
            assert events_of(attached) == []
            yield run, attached


def events_of(attached, *kinds):
    kinds = kinds or ("stalled", "goes on")
    return [event for event in attached.cluster.events if event.kind in kinds]


def end(run):
    """All processes end as they would have alone; each step added the number of processes."""
    (run.folder / "stop-0").touch()
    steps = set()
    for process in run.processes:
        stdout, stderr = process.communicate()
        assert process.returncode == 0, stderr
        number, state = stdout.splitlines()[-1].split()  # what comes before is said by gloo
        assert float(state) == int(number) * len(run.processes)
        steps.add(number)
    assert len(steps) == 1


def test_a_process_that_stops_in_its_data_loader_is_named_with_its_line(home):
    """And once it goes on so does the run, with the results that it would have had."""
    with standing(home, JAXTOP_READONLY="1") as (run, attached):
        (home / "load-2").touch()
        stood = time.monotonic()
        attached.until(lambda: events_of(attached))
        print("told", round(time.monotonic() - stood, 1), "s after the loader was asked to stop")
        (event,) = events_of(attached)
        assert event.severity == "critical" and event.agent == attached.host(2).agent
        line = str(LOADER)
        assert event.text.startswith("processes 0–1 wait in jit_step")
        assert "process 2" in event.text and event.text.endswith(f"stalls.py:{line} load_batch"), event.text
        groups = stack_groups(attached.cluster)
        assert [(len(group.agents), group.is_waiting) for group in groups] == [(2, True), (1, False)]
        for index in range(2):  # below Python's frames, what they wait in
            attached.until(lambda i=index: attached.host(i).stacks.telling.waits_in.startswith("gloo::"))
        print("native", round(time.monotonic() - stood, 1), "s after the loader was asked to stop")

        asked = []
        attached.source.request(attached.host(0).agent, wire.Request("stacks"), asked.append)
        attached.until(lambda: asked)  # to look is allowed also where nobody may act
        assert asked[0] is not None and not asked[0].error

        with viewer("stalls") as late:
            late.until(lambda: len(stack_groups(late.cluster)) == 2)

        (home / "load-2").unlink()
        attached.until(lambda: len(events_of(attached)) == 2)
        assert events_of(attached)[1].severity == "info" and events_of(attached)[1].kind == "goes on"
        attached.look(3)
        assert not any(host.pulse.stall for host in newest_hosts(attached.cluster))
        end(run)
    assert len(events_of(attached)) == 2


@pytest.mark.thorough
def test_a_process_that_was_killed_while_the_others_wait_is_named_as_dead(home):
    with standing(home) as (run, attached):
        run.processes[2].send_signal(signal.SIGKILL)
        stood = time.monotonic()
        attached.until(lambda: events_of(attached))
        print("told", round(time.monotonic() - stood, 1), "s after the kill")
        assert events_of(attached)[-1].text.endswith("process 2 has died")


def test_a_long_compilation_in_one_process_is_named_as_a_compilation(home):
    """And as nothing else, before, during or after it."""
    with standing(home) as (run, attached):
        before = run.steps(0)
        (home / "compile-1").touch()
        attached.until(lambda: events_of(attached))
        attached.until(lambda: events_of(attached)[-1].kind == "goes on")
        attached.until(lambda: run.steps(0) > before + 4)
        texts = [event.text for event in events_of(attached, "stalled")]
        assert texts and all("process 1 has been compiling large for" in text for text in texts), texts
        assert {event.severity for event in events_of(attached, "stalled")} == {"warning"}
        end(run)


ALONE = """
    import os, sys, time
    import numpy as np
    from jaxtop import agent
    agent.start(name=sys.argv[1])
    import jax
    step = jax.jit(lambda x: x * 0.5 + 1)
    @jax.jit
    def silent(x):
        jax.debug.callback(lambda x: None, x)
        return x + 1
    what, x = sys.argv[1], step(np.ones(4))
    for i in range(60):
        x = step(x)
        if what == "callback":
            x = silent(x) - 1
        time.sleep(6.5 if what == "pausing" and i % 20 == 19 else 0.5)
        if i == 39 and what != "pausing":
            break
    if what == "notebook":
        import code
        readable, _ = os.pipe()
        os.dup2(readable, 0)
        sys.stdout = sys.stderr = open(os.devnull, "w")
        code.interact()
    elif what != "pausing":
        time.sleep(60)
"""
KINDS = ("pausing", "callback", "notebook", "hanging")


def test_only_a_run_that_is_stalled_is_reported(tmp_path):
    """Not one with pauses that come again, nor an idle notebook; callbacks of the host hide nothing."""
    path = script(tmp_path, ALONE)
    with processes(*([PYTHON, path, kind] for kind in KINDS)) as started:
        eventually(lambda: len(runfiles.find()) == len(KINDS))
        with viewer(*KINDS) as attached:
            attached.until(lambda: started[0].poll() is not None)
            attached.look(2)
            names = {host.agent: host.run_name for host in attached.cluster.hosts.values()}
            events = [(names[event.agent], event.text) for event in events_of(attached, "stalled")]
            sources = {host.run_name: host.hello.sources["stalls"] for host in newest_hosts(attached.cluster)}
    of = {kind: [text for name, text in events if name == kind] for kind in KINDS}
    assert of["notebook"] == []
    assert len(of["pausing"]) <= 1
    for (text,) in (of["hanging"], of["callback"]):
        assert text.startswith("nothing launched for ") and "is at script.py:" in text
    assert sources["notebook"].startswith("off") and sources["hanging"] == "on"


BROKEN = {
    "the rhythm": "import jaxtop_agent.stalls.launch_gaps as m; m.LaunchGaps.update = boom",
    "the stacks": "import jaxtop_agent.stalls.stacks as m; m._thread = boom",
}


@pytest.mark.parametrize("part", BROKEN)
def test_where_it_fails_it_is_off_and_the_script_goes_on(tmp_path, part):
    with training_with(tmp_path, BOOM + BROKEN[part]) as (process,):
        assert process.stdout.readline() == "ready\n"
        eventually(runfiles.find)
        with viewer() as attached:
            attached.until(lambda: any(host.pulse.sampled_ms for host in newest_hosts(attached.cluster)))
            (host,) = newest_hosts(attached.cluster)
            answers = []
            attached.source.request(host.agent, wire.Request("stacks"), answers.append)
            attached.until(lambda: answers)
            assert bool(answers[0].error) == (part == "the stacks")
            why = "off: RuntimeError: broken on purpose"
            attached.until(lambda: newest_hosts(attached.cluster)[0].hello.sources["stalls"] == why)
            attached.until(lambda: newest_hosts(attached.cluster)[0].launches)
        ends_well(process, tmp_path)
