"""`jaxtop probe` on real processes: what it measures, whom it names, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from contextlib import contextmanager, suppress
from itertools import pairwise

import psutil
import pytest

from jaxtop.store import runfiles, saved_probe
from tests import patience
from tests.cases import thorough
from tests.made.agents import hello_here
from tests.support import JAXTOP, PYTHON, SOAK, environment, eventually, free_port, group, in_a_group, jaxtop
from tests.support import processes as side_by_side

# They compile, and the machine may be busy.
pytestmark = [pytest.mark.jax, pytest.mark.newest, pytest.mark.timeout(400)]

REPEATS = range(10 if SOAK else 1)
DEVICES = 4 if SOAK else 2  # of each of two processes
CPUS = ("--hosts", 2, "--devices", DEVICES)
FIGURES = {
    "memory_bytes_per_s",
    "matrix_flops_per_s",
    "enqueue_s",
    "round_trip_s",
    "to_device_bytes_per_s",
    "from_device_bytes_per_s",
}


def probing(folder, *words):
    """A probe as a shell starts it."""
    return in_a_group(folder, "probe", *words)


def complaint(done):
    """The one line that says what is wrong, apart from those that say how far it is."""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("probing: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.quiet
@pytest.mark.parametrize("_", REPEATS)
def test_all_devices_of_two_processes_are_measured_and_none_of_them_is_slow(_):
    """Within a minute; bytes and bandwidths add up; the result is kept."""

    def measured():
        start = time.monotonic()
        done = jaxtop("probe", *CPUS, "--json", "--seconds", 25 if SOAK else 8)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        assert time.monotonic() - start < 60 * patience.factor()
        return done if done.returncode == 0 else ""

    done = eventually(measured)  # where another program takes the core of a device, that one is slow
    probe = json.loads(done.stdout)
    assert (probe["schema"], probe["platform"], probe["processes"], probe["slow"]) == (1, "cpu", 2, [])
    assert [device["process"] for device in probe["devices"]] == [0] * DEVICES + [1] * DEVICES
    for device in probe["devices"]:
        assert set(device["figures"]) == FIGURES
        assert all(each["median"] > 0 and each["rounds"] >= 5 for each in device["figures"].values())
        assert device["figures"]["enqueue_s"]["median"] <= device["figures"]["round_trip_s"]["median"]
    assert {each["axis"]: each["group_size"] for each in probe["collectives"]} == {
        "hosts": 2,
        "devices": DEVICES,
        "all": 2 * DEVICES,
    }
    for each in probe["collectives"]:
        n, t = each["group_size"], each["time_s"]
        times = {"all-reduce": 2 * (n - 1) / n, "collective-permute": 1}.get(each["kind"], (n - 1) / n)
        assert each["algbw_bytes_per_s"] == pytest.approx(each["bytes"] / t)
        assert each["busbw_bytes_per_s"] == pytest.approx(times * each["bytes"] / t, rel=1e-6)
        members = sorted(device for met in each["groups"] for device in met["device_ids"])
        assert members == [device["id"] for device in probe["devices"]]
    assert json.loads(saved_probe.path().read_text()) == probe


@contextmanager
def starved(_pid):
    """Loops on all cores that are kinder than most, and not so kind as the process in question."""
    loops = [["nice", "-n", "10", PYTHON, "-c", "while True: pass"]] * (os.cpu_count() or 1)
    with side_by_side(*loops):
        yield


@contextmanager
def stopped(pid):
    """Most of the time it stands still: for longer where others would have its core for most of it anyway."""
    over, still_s = threading.Event(), 0.03 * patience.factor()

    def alternate():
        with suppress(psutil.NoSuchProcess):
            while not over.is_set():
                for each in psutil.Process(pid).children():
                    each.send_signal(signal.SIGSTOP)
                    over.wait(still_s)
                    each.send_signal(signal.SIGCONT)
                over.wait(0.008)

    thread = threading.Thread(target=alternate)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# A process that lacks a core is as slow as one that stands still for as long.
WAYS = [(stopped, 0), (starved, 19)] if SOAK else [(stopped, 0)]


@pytest.mark.quiet
@pytest.mark.parametrize("_", REPEATS)
@pytest.mark.parametrize(("slowed", "nice"), WAYS, ids=[way.__name__ for way, _ in WAYS])
def test_a_process_that_is_slowed_is_named_with_its_devices(tmp_path, slowed, nice, _):
    """Each of them started as on a cluster: process 0 says so, with its exit status, too."""
    cluster = ["--coordinator", f"127.0.0.1:{free_port()}", "--processes", 2, "--devices", 4]
    what = ["--only", "matmul,dispatch", "--seconds", 5]
    commands = [[*JAXTOP, "probe", *cluster, "--process", index, *what] for index in (0, 1)]
    with (tmp_path / "out").open("w") as out:
        started = side_by_side(commands[0], ["nice", "-n", nice, *commands[1]], stdout=out)
        with started as (first, second), slowed(second.pid):
            assert (first.wait(), second.wait()) == (1, 0)
    last = (tmp_path / "out").read_text().splitlines()[-1]
    found = re.fullmatch(
        r"devices 2048–2051 \(process 1 on .*\) are slow: matrix rate ([\d.]+).* of their peers'", last
    )
    assert found, (tmp_path / "out").read_text()
    assert 0 < float(found[1]) < 0.7


def test_the_axes_of_a_mesh_have_the_names_that_they_are_given():
    done = jaxtop(
        "probe",
        "--devices",
        4,
        "--mesh",
        "data=2,model=2",
        "--only",
        "collectives",
        "--sizes",
        "10k",
        "--seconds",
        60,  # it ends earlier: so many launches of 10 kB take a fraction of a second
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("all-")]
    assert [row[1:5] for row in rows if row[0] == "all-reduce"] == [
        ["data", "2", "of", "2"],
        ["model", "2", "of", "2"],
        ["all", "1", "of", "4"],
    ]
    assert done.stdout.splitlines()[-1] == "nothing to compare: no device was measured alone"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--devices", 2, "--mesh", "data=3"), "jaxtop: --mesh data=3 is for 3 devices; here are 2"),
        thorough(("--devices", 1, "--mesh", "data=3"), "jaxtop: --mesh data=3 is for 3 devices; here is 1"),
        (
            ("--coordinator", "node01", "--processes", 2, "--process", 1),
            "jaxtop: argument --coordinator: node01 is not HOST:PORT; see jaxtop probe --help",
        ),
        (
            ("--coordinator", "127.0.0.1:9", "--processes", 2, "--process", 2),
            "jaxtop: --process 2 of --processes 2: they count from 0",
        ),
        (
            ("--devices", 1, "--coordinator", "127.0.0.1:9", "--processes", 2, "--process", 1, "--wait", 1),
            "jaxtop: the other processes did not connect: start each of them with the same coordinator",
        ),
    ],
    ids=["a mesh of another size", "a mesh for one", "no address", "a process too many", "no coordinator"],
)
def test_what_cannot_be_measured_is_said_in_one_line(words, said):
    done = jaxtop("probe", *words)
    assert (done.returncode, complaint(done), done.stdout) == (2, said, "")


def test_devices_that_jax_does_not_find_are_an_error_in_one_line():
    done = jaxtop("probe", env=environment(JAX_PLATFORMS="nonesuch"))
    assert done.returncode == 2
    assert complaint(done).startswith("jaxtop: JAX finds no devices: ")


def test_a_process_that_is_lost_is_named_and_nothing_is_left_behind(tmp_path):
    with probing(tmp_path, *CPUS, "--only", "matmul,dispatch") as process:
        eventually(lambda: "probing: matmul" in (tmp_path / "err").read_text(), every=0.05)
        workers = sorted(psutil.Process(process.pid).children(), key=lambda each: each.pid)
        workers[1].kill()
        assert process.wait() == 2
        assert group(process) == []
    last = (tmp_path / "err").read_text().splitlines()[-1]
    assert last.startswith("jaxtop: process 1 of the probe was killed by SIGKILL (matmul)")


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), thorough(signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_whatever_ends_a_probe_nothing_is_left_behind(tmp_path, number, status):
    with probing(tmp_path, *CPUS) as process:
        eventually(lambda: "probing: memory" in (tmp_path / "err").read_text(), every=0.05)
        process.send_signal(number)
        assert process.wait() == status
        eventually(lambda: group(process) == [])
    lines = (tmp_path / "err").read_text().splitlines()
    assert all(line.startswith("probing: ") for line in lines)
    assert all(one != other for one, other in pairwise(lines))


def test_devices_that_a_live_run_uses_are_left_alone():
    """It is named, and can be overruled."""
    runfiles.write(hello_here(name="precious"))
    done = jaxtop("probe", "--devices", 1, "--only", "dispatch", "--seconds", 1)
    assert done.returncode == 2
    uses = f"the run precious (pid {os.getpid()}) uses this machine's devices: "
    assert complaint(done).startswith(f"jaxtop: {uses}")
    forced = jaxtop("probe", "--devices", 1, "--only", "dispatch", "--seconds", 1, "--force")
    assert forced.returncode == 0
