"""The thread that asks drivers: what it shows and when, and what comes of a driver that does not answer."""

from __future__ import annotations

import time
from subprocess import PIPE

import pytest

from jaxtop.wire import Device, DeviceSample
from jaxtop_agent.core.board import Board, Readings, Topology
from jaxtop_agent.core.threads import Worker
from jaxtop_agent.hardware.reader import columns
from jaxtop_agent.hardware.worker import Hardware
from jaxtop_agent.service.identity import identify
from jaxtop_agent.service.messages import device_sample, devices_of, source_states
from tests import patience, standin
from tests.standin import UUIDS
from tests.standin.tpu import DUTY, gauge, serving
from tests.support import PYTHON, environment, eventually, processes, run, script, snapshot


def topology(platform="gpu", kind="NVIDIA H100", count=2):
    devices = tuple(Device(i, kind, platform, local_id=i) for i in range(count))
    return Topology(0, 1, platform, devices, None)


@pytest.fixture
def board():
    board = Board(identify("test"), interval=0.02)
    yield board
    board.stopping = True
    for wakeup in board.wakeups:
        wakeup.set()


@pytest.fixture
def thread(board):
    """The thread, running; it is gone when the test is over."""
    failures = []
    worker = Worker("hardware", Hardware(board).run, failures.append)
    worker.start()
    yield worker
    board.stopping = True
    board.wakeups.hardware.set()
    assert worker.join(patience.left())
    assert failures == []


@pytest.fixture
def driver(tmp_path, monkeypatch):
    return standin.driver(tmp_path, monkeypatch)


def watch(board, of):
    board.sampler.topology, board.publisher.viewers = of, 1
    board.wakeups.hardware.set()


def now(board):
    return device_sample(board, time.monotonic())


@pytest.mark.usefixtures("thread")
class TestReading:
    def test_figures_stand_beside_those_of_the_allocator(self, driver, board):
        driver.have({}, {"power": 5})
        board.sampler.devices = DeviceSample(used_bytes=(1, 2))
        watch(board, topology())
        found = eventually(lambda: now(board).power_mw and now(board), every=0.02)
        assert (found.used_bytes, found.power_mw) == ((1, 2), (612_345, 5))
        assert board.sources["hardware"] == "on"
        assert [device.uuid for device in devices_of(board)] == [*UUIDS[:2]]

    def test_nothing_is_asked_while_nobody_watches(self, driver, board):
        driver.have({}, {})
        board.sampler.topology = topology()
        board.wakeups.hardware.set()
        time.sleep(0.1)
        assert board.sources["hardware"] == "waiting: for devices"
        watch(board, topology())
        eventually(lambda: now(board).power_mw, every=0.02)
        board.publisher.viewers = 0
        eventually(lambda: now(board) == DeviceSample(), every=0.02)

    def test_cpus_are_asked_nothing(self, board):
        watch(board, topology("cpu", "cpu"))
        eventually(lambda: board.sources["hardware"].startswith("off: these devices are"), every=0.02)
        assert now(board) == DeviceSample()

    def test_tpus_are_asked_through_their_runtime(self, board, monkeypatch):
        with serving() as service:
            monkeypatch.setenv("TPU_RUNTIME_METRICS_PORTS", str(service.port))
            service.metrics = {DUTY: [gauge(50.0, 0), gauge(60.0, 1)]}
            watch(board, topology("tpu", "TPU v6e"))
            eventually(lambda: now(board).utilization_permille == (500, 600), every=0.02)
            assert board.sources["hardware"] == "on"

    def test_what_is_missing_is_said(self, driver, board):
        driver.have({"energy": "!4"}, {"gpm": 0})
        watch(board, topology())
        expected = "on: not permitted: energy; not offered by these GPUs: dram, occupancy, pcie, tensor"
        eventually(lambda: board.sources["hardware"] == expected, every=0.02)
        assert now(board).energy_mj == (None, 123_456_789)

    def test_a_driver_that_is_not_loaded_is_said_in_words(self, driver, board):
        driver.say(init=9)
        watch(board, topology())
        eventually(lambda: board.sources["hardware"].startswith("off: the NVIDIA driver is not"), every=0.02)
        assert now(board) == DeviceSample()

    def test_other_devices_are_opened_anew(self, driver, board):
        driver.have({}, {})
        watch(board, topology())
        eventually(lambda: board.hardware.uuids == UUIDS[:2], every=0.02)
        watch(board, topology(count=1))
        eventually(lambda: board.hardware.uuids == UUIDS[:1], every=0.02)
        eventually(lambda: now(board).power_mw == (612_345,), every=0.02)

    @pytest.mark.parametrize(
        ("platform", "kind", "expected"),
        [
            ("gpu", "NVIDIA H100 80GB HBM3", "nvidia"),
            ("gpu", "AMD Instinct MI300X", "amd"),
            ("cuda", "Tesla T4", "nvidia"),
            ("rocm", "gfx942", "amd"),
            ("tpu", "TPU v5 lite", "tpu"),
            ("cpu", "cpu", None),
            ("METAL", "Metal", None),
        ],
    )
    def test_whose_devices_they_are(self, platform, kind, expected):
        assert topology(platform, kind).vendor == expected


class TestAge:
    def test_figures_are_shown_while_they_are_of_now(self, board):
        board.sampler.topology = topology()
        board.hardware.readings = Readings(at=100, valid_s=3, columns={"power_mw": (1, 2)})
        assert device_sample(board, 103).power_mw == (1, 2)
        assert device_sample(board, 103.1).power_mw is None

    def test_a_figure_that_no_message_could_carry_is_unknown(self, board):
        """Else one counter that went wrong in a driver would silence the agent."""
        board.sampler.topology = topology()
        read = columns([{"power_mw": 1 << 70, "clock_mhz": 7}, {"power_mw": 5, "energy_mj": -(1 << 70)}])
        board.hardware.readings = Readings(100.0, 9.0, read)
        sample = device_sample(board, 101.0)
        assert (sample.power_mw, sample.clock_mhz, sample.energy_mj) == ((None, 5), (7, None), None)

    def test_figures_of_other_devices_are_not_shown(self, board):
        board.sampler.topology = topology(count=3)
        board.hardware.readings = Readings(at=100, valid_s=3, columns={"power_mw": (1, 2)})
        assert device_sample(board, 100).power_mw is None

    @pytest.mark.parametrize(
        ("seconds", "said"),
        [
            (1, "on"),
            (12, "off: the driver has not answered for 10 s"),
            (61, "off: the driver has not answered for 1 min"),
            (10_000, "off: the driver has not answered for an hour"),
        ],
    )
    def test_a_silent_driver_is_said_to_be(self, board, seconds, said):
        board.sources["hardware"] = "on"
        board.hardware.requested_at = 1000.0
        assert source_states(board, 1000 + seconds)["hardware"] == said


# A run whose topology says that its devices are GPUs; the thread, pynvml and all else are as they are.
TRAINING = """
    import os, sys, time
    import msgspec
    import jaxtop_agent.collectors.topology as seen
    real = seen.Topology
    def gpus(**said):
        said["devices"] = tuple(
            msgspec.structs.replace(each, platform="gpu", kind="NVIDIA H100", local_id=place)
            for place, each in enumerate(said["devices"])
        )
        return real(**said | {"platform": "gpu"})
    import jaxtop_agent.service.messages as messages
    messages.DRIVER_UNANSWERED = ((1, "a second"),)  # so that nobody waits for ten
    if "real" not in sys.argv:
        seen.Topology = gpus
    from jaxtop import agent
    agent.start(interval=0.2)
    import jax
    step = jax.jit(lambda x: x * 0.5 + 1)
    x = step(1.0)
    print("ready", flush=True)
    while not os.path.exists("go"):
        x = step(x)
        time.sleep(0.01)
    sys.exit(3)
"""


def training(folder, *words, library_path=None):
    variables = {"STANDIN_GPUS": str(folder / "gpus")}
    if library_path is not None:
        variables["LD_LIBRARY_PATH"] = str(library_path)
    path = script(folder, TRAINING)
    env = environment(2, **variables)
    return processes([PYTHON, path, *words], stdout=PIPE, stderr=PIPE, cwd=folder, env=env)


def ends_well(process, folder):
    (folder / "go").touch()
    assert process.communicate() == ("", "")
    assert process.returncode == 3


def host():
    _, document = snapshot()
    return document["hosts"][0]


def has_power(seen):
    return all(device["power_w"] is not None for device in seen["devices"])


@pytest.mark.jax
@pytest.mark.newest
class TestInARun:
    def test_a_call_that_hangs_hangs_nothing_else_and_the_script_ends_as_it_would(self, tmp_path):
        driver = standin.Driver(tmp_path / "gpus")
        driver.have({}, {})
        with training(tmp_path, library_path=standin.libraries()) as (process,):
            assert process.stdout.readline() == "ready\n"
            # The state of a source and its first figures are in messages of their own.
            seen = eventually(
                lambda: (each := host())["sources"]["hardware"] == "on" and has_power(each) and each
            )
            assert [device["power_w"] for device in seen["devices"]] == [612.345, 612.345]
            driver.say(gpu1={"clock": "~600"})
            seen = eventually(lambda: (each := host())["devices"][0]["power_w"] is None and each)
            assert seen["state"] == "live"
            assert seen["rss_bytes"] and seen["launches"] and seen["devices"][0]["memory"]["used_bytes"]
            ends_well(process, tmp_path)

    @pytest.mark.thorough
    def test_a_driver_that_hangs_from_the_start_is_said_to_and_the_run_is_none_the_worse(self, tmp_path):
        standin.Driver(tmp_path / "gpus").say(init="~600")
        with training(tmp_path, library_path=standin.libraries()) as (process,):
            assert process.stdout.readline() == "ready\n"
            eventually(lambda: "not answered for a second" in host()["sources"]["hardware"])
            ends_well(process, tmp_path)

    def test_without_a_driver_it_says_so(self, tmp_path):
        if run(PYTHON, "-c", "import ctypes; ctypes.CDLL('libnvidia-ml.so.1')").returncode == 0:
            pytest.skip("there is a driver on this machine")
        with training(tmp_path) as (process,):
            assert process.stdout.readline() == "ready\n"
            seen = eventually(lambda: (each := host())["sources"]["hardware"].startswith("off") and each)
            assert seen["sources"]["hardware"].startswith("off: no NVIDIA driver on this machine")
            assert seen["devices"][0]["power_w"] is None
            ends_well(process, tmp_path)

    def test_a_run_on_cpus_loads_no_driver(self, tmp_path):
        with training(tmp_path, "real", library_path=standin.libraries()) as (process,):
            assert process.stdout.readline() == "ready\n"
            seen = eventually(lambda: (each := host())["sources"]["hardware"].startswith("off") and each)
            assert seen["sources"]["hardware"] == "off: these devices are the host's own CPUs"
            assert {device["utilization"] for device in seen["devices"]} == {None}
            with open(f"/proc/{process.pid}/maps") as maps:
                assert "libnvidia-ml" not in maps.read()
            ends_well(process, tmp_path)
