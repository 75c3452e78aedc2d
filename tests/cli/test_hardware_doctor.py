"""`jaxtop doctor` says what the drivers offer, what they do not and why, and does not hang with them."""

from __future__ import annotations

import json

import pytest

from jaxtop.cli import doctor
from jaxtop.cli.doctor import STAND_INS
from jaxtop.cli.machine import drivers
from tests import standin
from tests.support import jaxtop


@pytest.fixture
def driver(tmp_path, monkeypatch):
    return standin.driver_of_processes(tmp_path, monkeypatch)


def found(maker="nvidia"):
    return [(each.verdict, each.text) for each in doctor._hardware() if each.check == maker]


def test_gpus_are_listed_with_the_driver(driver):
    driver.have({}, {"gpm": 0, "field138.all": None, "name": "NVIDIA A10"})
    assert found() == [
        ("ok", "driver 550.54.15, 2 GPUs"),
        ("ok", "GPU 0 (GPU-00000000): NVIDIA H100 80GB HBM3"),
        ("ok", "GPU 1 (GPU-11111111): NVIDIA A10; it does not offer dram, link, occupancy, pcie, tensor"),
    ]


def test_a_lost_gpu_and_a_missing_permission_are_reported_with_what_to_do(driver):
    driver.have({"lost": 15}, {"gpm": "!4", "pcie_tx": 1, "pcie_rx": 1})
    version, lost, there, closed = found()
    assert version == ("ok", "driver 550.54.15, 2 GPUs")
    assert lost[0] == "bad" and lost[1].startswith("GPU 0 ") and "nvidia-smi --gpu-reset" in lost[1]
    assert there == ("ok", "GPU 1 (GPU-11111111): NVIDIA H100 80GB HBM3")
    assert closed[0] == "note" and closed[1].startswith("GPU 1: no permission for dram, occupancy, tensor; ")
    assert "NVreg_RestrictProfilingToAdminUsers=0" in closed[1]


def test_a_divided_gpu_is_reported(driver):
    driver.have({"mig": 2})
    assert found()[-1] == (
        "note",
        "GPU 0 is divided (MIG): instances have no utilisation and no power of their own",
    )


def test_a_driver_of_another_version_is_reported(driver):
    driver.say(init=18)
    assert found() == [
        (
            "note",
            "no GPU figures: the loaded NVIDIA driver and its library have different versions; reboot",
        )
    ]


def test_a_driver_that_hangs_is_reported_and_doctor_goes_on(driver, monkeypatch):
    monkeypatch.setattr(drivers, "PATIENCE", 3.0)
    driver.say(init="~600")
    ((verdict, text),) = found()
    assert verdict == "bad" and text.startswith("the driver did not answer within 3 s; ")


def test_a_driver_that_ends_the_process_is_reported(monkeypatch, tmp_path):
    (tmp_path / "pynvml.py").write_text("import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert found() == [("bad", "the driver check exited with status -6")]


def test_machines_without_any_of_it_get_notes_and_no_alarm():
    done = jaxtop("doctor", "--json")
    told = {each["check"]: each for each in json.loads(done.stdout)["findings"]}
    assert {"nvidia", "amd", "tpu"} <= set(told)
    untested = [each["text"] for each in json.loads(done.stdout)["findings"] if each["check"] == "untested"]
    assert [text.partition(" (")[0] for text in untested] == [each.figures for each in STAND_INS]
    assert told["amd"]["verdict"] != "bad" and told["tpu"]["verdict"] != "bad"
