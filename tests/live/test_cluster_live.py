"""What a viewer is told of real runs: of several processes, of one, of two side by side."""

from __future__ import annotations

import json
import os
import signal
import time
from subprocess import PIPE

import pytest

from jaxtop.base import keys
from jaxtop.model.findings.reducer import NO_FIGURES
from jaxtop.store import runfiles
from jaxtop.transport import Server
from tests.support import (
    JAXTOP,
    PYTHON,
    SOAK,
    eventually,
    jaxtop,
    jaxtop_here,
    loopback_address,
    processes,
    script,
    snapshot,
    states,
    training,
    viewer,
)

pytestmark = [pytest.mark.jax, pytest.mark.newest]

REPEATS = range(20 if SOAK else 1)
STALL = 60 if SOAK else 8
HOLD = 12


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Two processes with four devices each, for all tests that leave them as they found them."""
    with training(tmp_path_factory.mktemp("pair") / "home", hosts=2, devices=4) as run:
        yield run


@pytest.fixture
def run(shared, monkeypatch):
    monkeypatch.setenv("HOME", str(shared.home))
    return shared


def addresses(run):
    """The host:port of each process, as `ls` shows them."""
    return [hello.requests for hello in run.hellos()]


def test_a_snapshot_without_arguments_shows_the_whole_run(run):
    """Two live hosts, eight devices, the mesh with its axes, and memory that says where it comes from."""
    status, document = snapshot()
    assert status == 0
    assert states(document) == ["live", "live"]
    assert [host["process_index"] for host in document["hosts"]] == [0, 1]
    assert [host["pid"] for host in document["hosts"]] == [process.pid for process in run.processes]
    assert [each["process_count"] for each in document["runs"]] == [2]
    devices = [device for host in document["hosts"] for device in host["devices"]]
    assert len({device["id"] for device in devices}) == 8
    (mesh,) = document["meshes"]
    assert mesh["axes"] == [{"name": "data", "size": 4}, {"name": "model", "size": 2}]
    assert mesh["device_ids"] == [device["id"] for device in devices]
    # At least the weights and the batch; the step's own small results come and go.
    held = 512 * 128 * 4 + 128 * 4 + 16 * 512 * 4
    for device in devices:
        assert held <= device["memory"]["used_bytes"] <= 3 * held
        assert device["memory"]["source"] == "arrays"
        assert device["memory"]["peak_bytes"] is None and device["memory"]["limit_bytes"] is None


def test_launches_grow_from_one_snapshot_to_the_next(run):
    _, before = snapshot()
    run.go_on()
    _, after = snapshot()
    for i in (0, 1):
        assert 0 < before["hosts"][i]["launches"]["step"] < after["hosts"][i]["launches"]["step"]


def test_launches_are_those_that_the_script_made(run):
    """Every one, also the first, which JAX makes on its slow path."""
    with run.paused():
        _, document = snapshot()
        for i in (0, 1):
            assert document["hosts"][i]["launches"]["step"] == run.steps(i)
            assert document["hosts"][i]["step"]["count"] == run.steps(i)
            assert document["hosts"][i]["sources"]["launches"] == "on"


def test_ls_lists_the_run_with_its_processes_and_devices(run):
    done = jaxtop("ls")
    assert done.returncode == 0 and done.stderr == ""
    row = done.stdout.splitlines()[1].split()
    assert row[0] == "train" and row[2:7] == ["2", "of", "2", "8", "cpu"] and row[-1] in addresses(run)


def test_every_way_to_name_a_run_shows_all_of_it(run, tmp_path):
    """By run name, run id, the address of either process, run file, host file, and several at once."""
    run_id, files = run.hellos()[0].run, [str(each.path) for each in runfiles.find()]
    hosts = tmp_path / "hosts"
    hosts.write_text(f"# the cluster\n\n{addresses(run)[0]} slots=8\n{addresses(run)[1]}\n")
    ways = [
        ["train"],
        [run_id],
        [addresses(run)[0]],
        [addresses(run)[1]],
        [addresses(run)[1].replace("127.0.0.1", "localhost")],
        [files[0]],
        ["--hostfile", hosts],
        ["train", files[1], *addresses(run)],
    ]
    for words in ways:
        status, document = snapshot(*words)
        assert (status, states(document), document["unmet"]) == (0, ["live", "live"], []), words


def test_a_wrong_key_is_shown_nothing_and_told_so_in_one_line(run):
    stranger = keys.throwaway().secret.decode()
    env = {**os.environ, "JAXTOP_KEY": stranger}
    done = jaxtop("snapshot", addresses(run)[0], "--format", "csv", env=env)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "does not accept your key" in done.stderr
    assert not any(word in done.stdout for word in ("train", "live", "float32", "step"))
    status, document = snapshot(addresses(run)[0], env=env)
    assert status == 2
    assert not any(document[part] for part in ("runs", "hosts", "meshes", "arrays", "events"))


@pytest.mark.quiet
@pytest.mark.parametrize("_", REPEATS)
def test_a_stopped_host_is_reported_and_is_live_again_by_itself(run, _):
    with viewer() as attached:
        attached.until_state({0: "live", 1: "live"})
        os.kill(run.processes[1].pid, signal.SIGSTOP)
        try:
            print("stopped after", attached.until_state({1: "stopped"}, within=8))
            status, document = snapshot()
            assert (status, states(document)) == (1, ["live", "stopped"])
            status, document = snapshot(addresses(run)[0])  # here nobody but the roster told of it
            assert (status, states(document)) == (1, ["live", "stopped"])
        finally:
            os.kill(run.processes[1].pid, signal.SIGCONT)
        print("live again after", attached.until_state({0: "live", 1: "live"}))
    run.go_on()


@pytest.mark.quiet
def test_a_run_of_which_all_processes_are_stopped_is_checked(run):
    """Nobody answers, but the run is known by its files, and so is what is wrong."""
    for process in run.processes:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        done = jaxtop("check", "--json", "--wait", "5")
    finally:
        for process in run.processes:
            os.kill(process.pid, signal.SIGCONT)
    assert done.returncode == 2, done.stderr
    document = json.loads(done.stdout)
    (found,) = document["findings"]
    assert found["rule"] == "host_lost" and found["text"].endswith("are stopped")
    assert {each["reason"] for each in document["unchecked"]} == {NO_FIGURES}
    assert document["checked"] == ["host_lost", "crashed", "ended_early"]
    run.go_on()


@pytest.mark.parametrize("_", REPEATS)
def test_a_host_whose_python_is_stuck_is_blocked_and_is_live_again_by_itself(run, _):
    with viewer() as attached:
        attached.until_state({0: "live", 1: "live"})
        run.ask("hold-gil-1", HOLD)
        eventually(lambda: not (run.folder / "hold-gil-1").exists(), every=0.02)
        words = [*JAXTOP, "snapshot", "--format", "csv"]
        with processes(words, stdout=PIPE, stderr=PIPE) as (newcomer,):
            print("blocked after", attached.until_state({1: "blocked"}, within=HOLD))
            _, said = newcomer.communicate()
        assert newcomer.returncode == 1 and "is blocked" in said and len(said.splitlines()) == 1
        print("live again after", attached.until_state({0: "live", 1: "live"}))
    run.go_on()


@pytest.mark.quiet
@pytest.mark.parametrize("worker", [False, True] if SOAK else [True])
@pytest.mark.parametrize("_", REPEATS)
def test_a_killed_host_has_died(home, worker, _):
    """Told within three seconds to who was there, and at all to who comes later; a worker may live on."""
    # At an address of its own: else another run might take the dead one's port, and answer there.
    variables = {"JAXTOP_BIND": loopback_address(), **({"WORKER": "1"} if worker else {})}
    with training(home, **variables) as run, viewer() as attached:
        attached.until_state({0: "live", 1: "live"})
        by_run_file, by_roster = [], [addresses(run)[0]]
        os.kill(run.processes[1].pid, signal.SIGKILL)
        print("died after", attached.until_state({1: "died"}, within=3))
        if worker:
            os.kill(int((home / "worker-1").read_text()), 0)  # it lives: else this would prove nothing
        for words in (by_run_file, by_roster):
            done = jaxtop("snapshot", *words)
            assert done.returncode == 1
            assert states(json.loads(done.stdout)) in (["live", "died"], ["live", "gone"])
            (line,) = done.stderr.splitlines()
            assert line.startswith("jaxtop: process 1 on ") and line.endswith(("has died", "is gone"))


def test_a_death_stays_a_death_when_a_stranger_takes_the_address(home):
    """Ports are given again: another user's agent may answer there next, and does not know our key."""
    with training(home, devices=2, JAXTOP_BIND=loopback_address()) as run, viewer() as attached:
        attached.until_state({0: "live", 1: "live"})
        first, second = addresses(run)
        os.kill(run.processes[1].pid, signal.SIGKILL)
        attached.until_state({1: "died"})
        stranger = Server(keys.throwaway(), frozenset)
        try:
            host, _, port = second.rpartition(":")
            assert stranger.bind(host, int(port))[0] == int(port)
            attached.look(4)
            assert (attached.state(0), attached.state(1)) == ("live", "died")
            status, document = snapshot(first)
            assert status == 1 and states(document)[1] in ("died", "gone")
        finally:
            stranger.close()


def test_a_run_that_ends_in_order_has_ended(home):
    with training(home) as run, viewer() as attached:
        attached.until_state({0: "live", 1: "live"})
        run.ask("stop")
        attached.until_state({0: "ended", 1: "ended"})
        assert [process.wait() for process in run.processes] == [0, 0]
        attached.look(3)
        assert (attached.state(0), attached.state(1)) == ("ended", "ended")
    done = jaxtop("snapshot")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "no live runs" in jaxtop("ls").stdout


LINGERS = """
    import atexit, os, sys, time

    def wait():
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.05)

    atexit.register(wait)  # it runs last
    from jaxtop import agent
    agent.start(name="lingers")
    import jax.numpy as jnp
    jnp.ones(3).block_until_ready()
"""


def test_a_process_that_waits_in_its_exit_is_said_to_and_when_its_script_ended(tmp_path):
    """As in the exit hooks of JAX, which wait for the other processes."""
    may_end = tmp_path / "may_end"
    with processes([PYTHON, script(tmp_path, LINGERS), may_end]) as (process,):
        eventually(runfiles.endings)
        (ending,) = runfiles.endings()
        pid, at = ending.hello.pid, ending.bye.at_ms / 1000
        eventually(lambda: time.time() > at + 2)  # or it would be the time of the look as well
        done = jaxtop_here("check", "lingers")
        assert f"{ending.hello.hostname} has ended, but its process {pid}" in done.stderr
        assert f"ended at {time.strftime('%H:%M:%S', time.localtime(at))}, exit status n/a" in done.stdout
        for command in ("snapshot", "attach"):
            done = jaxtop_here(command, "lingers")
            assert f"'lingers' has ended, but process {pid} is still in its exit" in done.stderr
        may_end.touch()
        assert process.wait() == 0
    assert "still in its exit" not in jaxtop_here("check", "lingers").stderr
