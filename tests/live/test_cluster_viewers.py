"""What viewers do to a run (nothing), and what they say where there is none."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from jaxtop import wire
from jaxtop.sources import discovery
from tests.support import (
    PYTHON,
    ROOT,
    SOAK,
    environment,
    eventually,
    free_port,
    jaxtop,
    jaxtop_here,
    loopback_address,
    processes,
    snapshot,
    training,
    viewer,
)

STALL = 60 if SOAK else 8
# What the agent may take in the training process, whatever its viewers do.
MOST_MEMORY = 30_000_000


@pytest.fixture(scope="module")
def talkative(tmp_path_factory):
    """A single process whose pulses are large and frequent, so that a viewer that stalls misses some."""
    with training(
        tmp_path_factory.mktemp("talkative") / "home",
        hosts=1,
        devices=2,
        NAME="talkative",
        FUNCTIONS="100",
        JAXTOP_INTERVAL="0.1",
        JAXTOP_BIND=loopback_address(),
    ) as run:
        yield run


@pytest.fixture
def run(talkative, monkeypatch):
    monkeypatch.setenv("HOME", str(talkative.home))
    return talkative


@contextmanager
def watching(folder, pause):
    """A viewer in a process of its own that looks every so many seconds, and what it knew last."""
    path = folder / "seen"
    with (
        path.open("w") as file,
        processes([PYTHON, ROOT / "tests" / "programs" / "watch.py", pause], stdout=file) as (process,),
    ):
        yield process, lambda: json.loads(path.read_text().rpartition("\n")[0].rpartition("\n")[2] or "{}")


@pytest.mark.newest
@pytest.mark.jax
@pytest.mark.parametrize("conduct", ["killed", "stopped", "slow"])
def test_whatever_a_viewer_does_the_run_goes_on(run, tmp_path, conduct):
    """A viewer that is killed, stopped or slow costs no steps and little memory, and catches up exactly."""
    with watching(tmp_path, pause=3 if conduct == "slow" else 0) as (process, seen):
        eventually(lambda: seen().get("hosts", {}).get("0", {}).get("launches"))
        memory = run.rss()
        if conduct == "killed":
            process.kill()
        if conduct == "stopped":
            process.send_signal(signal.SIGSTOP)
        end = time.monotonic() + (STALL if conduct == "stopped" else STALL / 3)
        while time.monotonic() < end:
            run.go_on()
            assert run.rss() - memory < MOST_MEMORY
        if conduct == "killed":
            assert snapshot()[0] == 0
            return
        process.send_signal(signal.SIGCONT)
        with run.paused():
            # A pulse may have been made between the launches of the last step.
            eventually(lambda: {*seen()["hosts"]["0"]["launches"].values()} == {run.steps()})
            assert seen()["hosts"]["0"]["state"] == "live"
        if conduct == "stopped":
            assert seen()["missed"] > 0  # else nothing was repaired, and this proved little


@pytest.mark.newest
@pytest.mark.jax
def test_what_one_viewer_asks_for_is_not_missing_elsewhere(run):
    """The whole state goes to one viewer alone; the others still hear of all that moved."""
    with viewer() as one, viewer() as other:
        one.until(lambda: one.host(0).hello)
        other.until(lambda: other.host(0).hello)
        answers = []

        def ask(request):
            """Ask the agent, and wait for its answer."""
            before = len(answers)
            one.source.request(one.host(0).agent, request, answers.append)
            one.until(lambda: len(answers) > before)

        ask(wire.Request("pace", interval_ms=3000))
        other.until(lambda: other.host(0).hello.interval_ms == 3000)
        with run.paused():
            ask(wire.Request("state"))  # comes between the last launch and the next pulse
            for each in (one, other):
                each.until(lambda each=each: each.host(0).launches.get("step") == run.steps())
        ask(wire.Request("pace", interval_ms=100))
        assert not any(answer is None or answer.error for answer in answers)


@pytest.mark.newest
@pytest.mark.jax
@pytest.mark.usefixtures("run")
def test_a_run_of_one_process_is_shown_like_any_other():
    status, document = snapshot()
    assert status == 0
    assert [each["process_count"] for each in document["runs"]] == [1]
    (host,) = document["hosts"]
    assert (host["state"], host["process_index"], len(host["devices"])) == ("live", 0, 2)
    assert [axis["size"] for axis in document["meshes"][0]["axes"]] == [1, 2]


@pytest.mark.newest
@pytest.mark.jax
def test_a_host_alone_is_address_enough(run):
    """Without a port, the ports that agents take first are tried."""
    host, _, port = run.hellos()[0].requests.rpartition(":")
    assert int(port) == 7410
    status, document = snapshot(host)
    assert (status, len(document["hosts"]), document["unmet"]) == (0, 1, [])


@pytest.mark.newest
@pytest.mark.jax
def test_two_runs_side_by_side_are_distinguished(run, tmp_path):
    with training(tmp_path / "second", hosts=1, devices=2, HOME=str(run.home), NAME="second") as second:
        listed = {row.split()[0] for row in jaxtop("ls").stdout.splitlines()[1:]}
        assert listed == {"talkative", "second"}
        pids = {"talkative": run.processes[0].pid, "second": second.processes[0].pid}
        for words, names in {
            (): ["second"],  # the newest
            ("talkative",): ["talkative"],
            ("talkative", "second"): ["second", "talkative"],
        }.items():
            status, document = snapshot(*words)
            assert status == 0
            assert [each["name"] for each in document["runs"]] == names
            assert [host["pid"] for host in document["hosts"]] == [pids[name] for name in names]
            assert [host["run"] for host in document["hosts"]] == [each["id"] for each in document["runs"]]
            assert {mesh["run"] for mesh in document["meshes"]} == {each["id"] for each in document["runs"]}
        os.kill(pids["second"], signal.SIGKILL)
        second.processes[0].wait()
        assert snapshot()[1]["runs"][0]["name"] == "talkative"


@pytest.mark.jax
@pytest.mark.parametrize(
    ("hosts", "merged"),
    [pytest.param(2, "1", marks=pytest.mark.newest), (1, "0")],
    ids=["two processes", "the old pmap"],
)
def test_pmap_is_shown_with_its_axis(home, hosts, merged):
    """By its name where this JAX gives the result a mesh; always by devices and bytes."""
    coordinator = f"127.0.0.1:{free_port()}" if hosts > 1 else "-"
    program = [PYTHON, ROOT / "tests" / "programs" / "pmap.py", coordinator, hosts]
    variables = {**environment(4), "STEER": str(home), "JAX_PMAP_SHMAP_MERGE": merged}
    with processes(*([*program, i] for i in range(hosts)), env=variables):
        truths = [home / f"result-{i}" for i in range(hosts)]
        eventually(lambda: all(path.exists() for path in truths))
        eventually(lambda: [len(host["devices"]) for host in snapshot()[1].get("hosts", [])] == [4] * hosts)
        status, document = snapshot()
    assert status == 0
    for truth in (json.loads(path.read_text()) for path in truths):
        axes = [{"name": "batch", "size": len(truth["device_ids"])}]
        shown = [mesh["axes"] for mesh in document["meshes"] if mesh["device_ids"] == truth["device_ids"]]
        assert shown == ([] if truth["kind"] == "PmapSharding" else [axes])
        (array,) = [each for each in document["arrays"] if each["device_ids"] == truth["device_ids"]]
        assert (array["bytes_per_device"], array["replication"]) == (4000, 1)
    used = [device["memory"]["used_bytes"] for host in document["hosts"] for device in host["devices"]]
    assert used == [4000] * 4 * hosts


def says_nothing(_):
    time.sleep(20)


def hangs_up(_):
    pass


def talks_of_something_else(client):
    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 1000)
    time.sleep(1)


def speaks_without_a_key(client):
    """As far as the greeting a ZeroMQ peer, but with no encryption."""
    client.sendall(b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL".ljust(64, b"\0"))
    time.sleep(5)


@pytest.fixture(params=[says_nothing, hangs_up, talks_of_something_else, speaks_without_a_key])
def stranger(request):
    """A port where somebody answers who is no agent."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(client,), daemon=True).start()

    def answer(client):
        with client, suppress(OSError):
            request.param(client)

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def complaint(*words):
    """What snapshot says, in one line, of targets behind which there is nothing."""
    done = jaxtop_here("snapshot", *words)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("jaxtop: ") and "Traceback" not in line
    document = json.loads(done.stdout) if done.stdout else {"hosts": []}
    assert document["hosts"] == []
    return line


def test_somebody_else_at_the_address_is_reported_in_one_line(stranger):
    assert stranger in complaint(stranger)


def test_an_address_where_nobody_listens_is_reported_in_one_line():
    assert "nothing listens" in complaint(f"127.0.0.1:{free_port()}")
    assert "nothing listens" in complaint(loopback_address())


def test_the_ports_of_a_host_that_are_tried_are_those_that_are_reported():
    """Where more agents are, one may have to be named with its port."""
    (seed,) = discovery.seeds(["127.0.0.1"])
    first, last = (seed.endpoints[i].rpartition(":")[2] for i in (0, -1))
    told = f"ports {first} to {last}"
    assert told in (ROOT / "docs/watching.md").read_text()
    assert told in " ".join(jaxtop("attach", "--help").stdout.split())


@pytest.mark.parametrize(
    "target", ["no-such-run", "127.0.0.1:99999", "127.0.0.1:port", "no/such/file.json", ""]
)
def test_a_target_that_is_none_is_reported_in_one_line(target):
    complaint(target)


def test_a_host_file_that_is_none_is_reported_in_one_line(tmp_path):
    complaint("--hostfile", tmp_path / "nowhere")
    (tmp_path / "empty").write_text("# nobody\n")
    complaint("--hostfile", tmp_path / "empty")
    assert "not a host file" in complaint("--hostfile", "/dev/zero")
