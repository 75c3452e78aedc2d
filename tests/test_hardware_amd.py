"""AMD's GPUs, through a module that has the names and units of amdsmi's documentation."""

from __future__ import annotations

import sys

import pytest

from jaxtop.wire import Device
from jaxtop_agent.hardware.amd import Amd
from jaxtop_agent.hardware.reader import Off
from tests.standin import amdsmi
from tests.standin.amdsmi import MI300X, AmdSmiRetCode

ALL = {
    "utilization_permille": 880,
    "memory_activity_permille": 300,
    "driver_used_bytes": 100 << 30,
    "driver_total_bytes": 192 << 30,
    "power_mw": 612_000,
    "power_limit_mw": 750_000,
    "energy_mj": 30_600,
    "temperature_c": 71,
    "temperature_limit_c": 100,
    "clock_mhz": 2100,
    "clock_max_mhz": 2100,
    "memory_clock_mhz": 1300,
    "ecc_corrected": 4,
    "ecc_uncorrected": 1,
}
NOT = AmdSmiRetCode.NOT_SUPPORTED


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", amdsmi)
    for name in ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(amdsmi, "refusal", [])
    monkeypatch.setattr(amdsmi, "calls", [])
    monkeypatch.setattr(amdsmi, "gpus", [])


def have(*gpus):
    """These GPUs, as the driver lists them; HIP numbers them the other way round."""
    for place, gpu in enumerate(gpus):
        number = len(gpus) - 1 - place
        names = {"hip_id": number, "hip_uuid": f"GPU-{number}{'a' * 15}"}
        amdsmi.gpus.append(MI300X | {"enumeration": names, "kfd": NOT, "uuid": "?"} | gpu)


def opened(*ordinals):
    return Amd([Device(i, "AMD Instinct MI300X", "gpu", ordinal) for i, ordinal in enumerate(ordinals)])


def test_all_figures_that_it_offers_are_read():
    have({})
    reader = opened(0)
    assert reader.read(0) == [ALL]
    assert reader.remarks() == ""


def test_older_versions_have_other_names_and_units():
    have(
        {
            "power": {"average_socket_power": 300},
            "cap": {"power_cap": 560},
            "energy": {"power": 1000, "counter_resolution": 15.259},
            "clocks": {2: {"cur_clk": 900, "max_clk": 1700}, 3: {"cur_clk": 800, "max_clk": 1600}},
        }
    )
    (found,) = opened(0).read(0)
    expected = {"power_mw": 300_000, "power_limit_mw": 560_000, "energy_mj": 15, "clock_mhz": 900}
    assert {name: found[name] for name in expected} == expected


def test_traffic_between_gpus_is_the_difference_of_the_counters_of_all_links():
    have({})
    reader = opened(0)
    reader.read(10)
    amdsmi.gpus[0]["metrics"] = {"xgmi_read_data_acc": [3000, 2000], "xgmi_write_data_acc": [10, 0]}
    (found,) = reader.read(12)
    assert (found["link_received_bytes_per_s"], found["link_sent_bytes_per_s"]) == (1_000_000, 0)
    reader.rest()
    assert "link_sent_bytes_per_s" not in reader.read(1000)[0]


def test_what_a_gpu_does_not_have_is_unknown_and_not_asked_again():
    have(
        {
            "power": NOT,
            "activity": {"gfx_activity": "N/A", "umc_activity": 5},
            "cap": {"power_cap": float("nan")},
        },
        {"errors": AmdSmiRetCode.BUSY},
    )
    reader = opened(0, 1)
    second, first = reader.read(0)
    assert not first.keys() & {"power_mw", "power_limit_mw", "utilization_permille"}
    assert first["memory_activity_permille"] == 50
    assert second["power_mw"] == 612_000
    assert reader.remarks() == "not offered by these GPUs: power"
    amdsmi.gpus[0]["power"] = MI300X["power"]
    amdsmi.gpus[1]["errors"] = MI300X["errors"]
    second, first = reader.read(1)
    assert "power_mw" not in first
    assert second["ecc_corrected"] == 4


@pytest.mark.parametrize(
    ("variables", "ordinals", "expected"),
    [
        ({}, (0, 1, 2), (0, 1, 2)),
        ({"HIP_VISIBLE_DEVICES": "2,0"}, (0, 1), (2, 0)),
        ({"CUDA_VISIBLE_DEVICES": "1"}, (0,), (1,)),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, (0,), (2,)),
        ({"ROCR_VISIBLE_DEVICES": "GPU-2aaaaaaaaaaaaaaa,0"}, (0, 1), (2, 0)),
        ({"HIP_VISIBLE_DEVICES": "0,7"}, (0, 1), (0, None)),
    ],
)
def test_which_gpu_is_which(monkeypatch, variables, ordinals, expected):
    have(*({"power": {"socket_power": 100 + number}} for number in (2, 1, 0)))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    reader = opened(*ordinals)
    powers = [each.get("power_mw") for each in reader.read(0)]
    assert powers == [None if number is None else (100 + number) * 1000 for number in expected]
    assert reader.uuids[0] == f"GPU-{expected[0]}{'a' * 15}"


def test_older_versions_tell_the_node_and_where_nothing_is_told_nothing_is_guessed():
    have({"enumeration": NOT, "kfd": {"node_id": 5}, "power": {"socket_power": 5}})
    have({"enumeration": NOT, "kfd": {"node_id": 3}, "power": {"socket_power": 3}})
    assert [each["power_mw"] for each in opened(0, 1).read(0)] == [3000, 5000]
    for gpu in amdsmi.gpus:
        gpu["kfd"] = NOT
    with pytest.raises(Off, match="which GPUs these are cannot be told"):
        opened(0, 1)
    amdsmi.gpus.pop()
    assert opened(0).read(0)[0]["power_mw"] == 5000


def test_without_the_library_or_the_driver_it_says_so(monkeypatch):
    amdsmi.refusal.append(34)
    with pytest.raises(Off, match="amdsmi says: Error code"):
        opened(0)
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    with pytest.raises(Off, match="it comes with ROCm"):
        opened(0)


def test_it_is_shut_down():
    have({})
    opened(0).close()
    assert amdsmi.calls[-1] == "shut down"
