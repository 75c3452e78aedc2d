"""AMD's GPUs, through files like those that their driver shows in /sys."""

from __future__ import annotations

import pytest

from jaxtop.wire import Device
from jaxtop_agent.hardware import amd
from jaxtop_agent.hardware.amd import Amd
from jaxtop_agent.hardware.reader import Off

ALL = {
    "utilization_permille": 880,
    "memory_activity_permille": 300,
    "driver_used_bytes": 100 << 30,
    "driver_total_bytes": 192 << 30,
    "power_mw": 612_000,
    "power_limit_mw": 750_000,
    "temperature_c": 71,
    "temperature_limit_c": 100,
    "clock_mhz": 2100,
    "clock_max_mhz": 2100,
    "memory_clock_mhz": 1300,
    "ecc_corrected": 4,
    "ecc_uncorrected": 1,
}
# As an MI300X has them: no heat at the edge, no average of the power.
MI300X = {
    "gpu_busy_percent": "88",
    "mem_busy_percent": "30",
    "mem_info_vram_used": str(100 << 30),
    "mem_info_vram_total": str(192 << 30),
    "pp_dpm_sclk": "S: 19Mhz\n0: 132Mhz\n1: 2100Mhz *",
    "hwmon/hwmon7/power1_input": "612000000",
    "hwmon/hwmon7/power1_cap": "750000000",
    "hwmon/hwmon7/temp2_input": "71000",
    "hwmon/hwmon7/temp2_crit": "100000",
    "hwmon/hwmon7/freq1_input": "2100000000",
    "hwmon/hwmon7/freq2_input": "1300000000",
    "ras/umc_err_count": "ue: 1\nce: 4",
}


@pytest.fixture(autouse=True)
def visible(monkeypatch):
    for name in ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


class Machine:
    """Two CPUs, and the GPUs that a test puts in, with their figures over those of an MI300X."""

    def __init__(self, root):
        self.root = root
        self.count = 0
        for node in range(2):
            self.write(f"{amd.NODES}/{node}/gpu_id", "0")

    def write(self, name, said):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if said is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(f"{said}\n")

    def have(self, *gpus, location=None, is_open=True, gpu_id="48912"):
        for gpu in gpus:
            number, self.count = self.count, self.count + 1
            node = f"{amd.NODES}/{number + 2}"  # so 8 and more of them: 10 comes after 9
            place = 1000 * number if location is None else location | number << 28
            self.write(f"{node}/gpu_id", gpu_id)
            properties = f"simd_count 1216\ndrm_render_minor {128 + number}\nlocation_id {place}\ndomain 0"
            self.write(f"{node}/properties", properties)
            if is_open:
                self.write(f"dev/dri/renderD{128 + number}", "")
            self.tell(number, MI300X | {"unique_id": f"{number}{'a' * 15}"} | gpu)

    def tell(self, number, figures):
        for name, said in figures.items():
            self.write(f"sys/class/drm/renderD{128 + number}/device/{name}", said)

    def opened(self, *ordinals):
        devices = [Device(i, "AMD Instinct MI300X", "gpu", ordinal) for i, ordinal in enumerate(ordinals)]
        return Amd(devices, str(self.root))


def test_all_figures_that_the_driver_shows_are_read(machine):
    machine.have({})
    reader = machine.opened(0)
    assert reader.read(0) == [ALL]
    assert reader.remarks() == ""
    assert reader.uuids == (f"GPU-0{'a' * 15}",)


def test_an_average_of_the_power_goes_before_what_it_is_right_now(machine):
    machine.have({"hwmon/hwmon7/power1_average": "300000000"})
    assert machine.opened(0).read(0)[0]["power_mw"] == 300_000


@pytest.mark.parametrize("said", ["CPX", "DPX", "SPX"])
def test_a_part_that_is_alone_in_its_container_is_not_taken_for_the_whole(machine, said):
    machine.have({"current_compute_partition": said})
    reader = machine.opened(0)
    assert reader.read(0) == [ALL if said == "SPX" else {}]
    assert bool(reader.remarks()) == (said != "SPX")


@pytest.mark.parametrize("said", [None, "", "N/A", "-1"])
def test_what_a_gpu_does_not_have_is_unknown_and_said(machine, said):
    machine.have({"hwmon/hwmon7/power1_input": said, "pp_dpm_sclk": said}, {})
    reader = machine.opened(0, 1)
    first, second = reader.read(0)
    assert first == {name: each for name, each in ALL.items() if name not in {"power_mw", "clock_max_mhz"}}
    assert second == ALL
    assert reader.remarks() == "not offered by these GPUs: clock max, power"


def test_errors_that_cannot_be_asked_for_now_are_unknown(machine):
    machine.have({"ras/umc_err_count": "Query currently inaccessible"})
    assert not machine.opened(0).read(0)[0].keys() & {"ecc_corrected", "ecc_uncorrected"}


@pytest.mark.parametrize(
    ("variables", "ordinals", "expected"),
    [
        ({}, (0, 1, 2), (0, 1, 2)),
        ({"HIP_VISIBLE_DEVICES": "2,0"}, (0, 1), (2, 0)),
        ({"CUDA_VISIBLE_DEVICES": "1"}, (0,), (1,)),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "1"}, (0,), (1,)),
        ({"HIP_VISIBLE_DEVICES": ""}, (0, 1), (0, 1)),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, (0,), (2,)),
        ({"ROCR_VISIBLE_DEVICES": "GPU-2aaaaaaaaaaaaaaa,0"}, (0, 1), (2, 0)),
        ({"HIP_VISIBLE_DEVICES": "0,7"}, (0, 1), (0, None)),
    ],
)
def test_which_gpu_is_which(machine, monkeypatch, variables, ordinals, expected):
    machine.have(*({"hwmon/hwmon7/power1_input": f"10{number}000000"} for number in range(3)))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    reader = machine.opened(*ordinals)
    powers = [each.get("power_mw") for each in reader.read(0)]
    assert powers == [None if number is None else (100 + number) * 1000 for number in expected]
    assert reader.uuids[0] == f"GPU-{expected[0]}{'a' * 15}"
    assert ("1 of 2 devices not found" in reader.remarks()) == (None in expected)


def test_gpus_that_may_not_be_used_are_not_counted(machine):
    machine.have({}, is_open=False)  # a container without its /dev/dri/renderD128
    machine.have({}, gpu_id="")  # the kernel refuses the file to other control groups
    machine.have({"gpu_busy_percent": 7})
    assert machine.opened(0).read(0)[0]["utilization_permille"] == 70


def test_more_than_ten_of_them_stand_in_the_order_of_their_numbers(machine):
    machine.have(*({"gpu_busy_percent": number} for number in range(12)))
    found = machine.opened(*range(12)).read(0)
    assert [each["utilization_permille"] for each in found] == [10 * number for number in range(12)]


def test_parts_of_a_gpu_are_not_given_the_figures_of_all_of_it(machine):
    machine.have({}, {}, location=5000)
    machine.have({})
    reader = machine.opened(0, 1, 2)
    assert reader.read(0) == [{}, {}, ALL]
    assert reader.remarks() == "no figures of partitions of a GPU"


def test_without_a_gpu_or_a_way_to_tell_which_it_is_it_says_so(machine, monkeypatch):
    with pytest.raises(Off, match="no AMD GPU may be used here"):
        machine.opened(0)
    machine.have({})
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "9")
    with pytest.raises(Off, match="these devices cannot be matched to GPUs"):
        machine.opened(0)
