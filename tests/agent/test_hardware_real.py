"""A real GPU, where there is one: what its driver says is read, makes sense, and does not harm."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support import PYTHON, run

pytestmark = pytest.mark.skipif(
    not Path("/dev/nvidiactl").exists(), reason="there is no NVIDIA driver on this machine"
)

# In a process of its own: in this one other tests may have put a stand-in in the driver's place.
READ = """
import json, sys, time
from jaxtop.wire import Device
from jaxtop_agent.hardware.nvidia import Nvidia
told = []
reader = Nvidia([Device(0, "GPU", "gpu", local_id=0)], lambda *each: told.append(each))
reader.read(time.monotonic())
time.sleep(1.5)
cpu = time.thread_time()
(figures,) = reader.read(time.monotonic())
cpu = time.thread_time() - cpu
said = {"figures": figures, "uuid": reader.uuids[0], "remarks": reader.remarks(), "told": told, "cpu": cpu}
reader.close()
json.dump(said, sys.stdout)
"""


def test_its_figures_make_sense():
    done = run(PYTHON, "-c", READ)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    print(json.dumps(said, indent=2), file=sys.stderr)  # with -s, to be kept
    figures = said["figures"]
    assert said["uuid"].startswith("GPU-")
    assert 0 <= figures["driver_used_bytes"] < figures["driver_total_bytes"]  # 0: nobody uses the GPU
    assert 0 <= figures["utilization_permille"] <= 1000
    assert 0 < figures["temperature_c"] < figures["temperature_limit_c"] < 130
    assert 0 < figures["power_mw"] < 2_000_000
    assert 0 < figures["clock_mhz"] <= figures["clock_max_mhz"]
    shares = [name for name in figures if name.endswith("_permille")]
    assert all(0 <= figures[name] <= 1000 for name in shares)


def test_doctor_sees_it():
    done = run(PYTHON, "-m", "jaxtop_agent.hardware.check", "nvidia")
    found = json.loads(done.stdout)
    assert found[0][0] == "ok" and found[0][1].startswith("driver ")
    assert not [text for verdict, text in found if verdict == "bad"]
