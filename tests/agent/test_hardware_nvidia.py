"""NVIDIA's GPUs, through the real nvidia-ml-py and a library that stands in for the driver's."""

from __future__ import annotations

import sys
from types import ModuleType

import pynvml
import pytest

from jaxtop.wire import SLOWED, Device
from jaxtop_agent.hardware.nvidia import Nvidia
from jaxtop_agent.hardware.reader import Off
from tests import standin
from tests.standin import INSTANCES, UUIDS

ALL = {
    "utilization_permille": 930,
    "memory_activity_permille": 410,
    "driver_used_bytes": 60 << 30,  # without what the driver keeps for itself
    "driver_total_bytes": 80 << 30,
    "power_mw": 612_345,
    "power_limit_mw": 700_000,
    "energy_mj": 123_456_789,
    "temperature_c": 64,
    "temperature_limit_c": 87,
    "clock_mhz": 1755,
    "clock_max_mhz": 1980,
    "memory_clock_mhz": 2619,
    "slowed": 0,
    "ecc_corrected": 3,
    "ecc_uncorrected": 0,
    "occupancy_permille": 346,
    "tensor_permille": 712,
    "dram_permille": 550,
    "pcie_sent_bytes_per_s": 1000 << 20,
    "pcie_received_bytes_per_s": round(250.5 * (1 << 20)),
}


@pytest.fixture
def driver(tmp_path, monkeypatch):
    return standin.driver(tmp_path, monkeypatch)


class Events(list):
    def __call__(self, severity, kind, text):
        self.append((severity, kind, text))


@pytest.fixture
def events():
    return Events()


@pytest.fixture
def opened(events):
    """Opens readers for devices with these ordinals of CUDA's, and closes them."""
    readers = []

    def start(*ordinals):
        devices = [Device(i, "NVIDIA H100", "gpu", ordinal) for i, ordinal in enumerate(ordinals)]
        readers.append(Nvidia(devices, events))
        return readers[-1]

    yield start
    for reader in readers:
        reader.close()


class TestFigures:
    def test_all_that_a_hopper_has_is_read(self, driver, opened):
        driver.have({})
        reader = opened(0)
        reader.read(0)
        (found,) = reader.read(1)
        assert {name: found[name] for name in ALL} == ALL
        assert reader.remarks() == ""
        assert reader.uuids == (UUIDS[0],)

    def test_traffic_over_nvlink_is_the_difference_over_the_drivers_own_clock(self, driver, opened):
        driver.have({"gpm": 0})
        reader = opened(0)
        (first,) = reader.read(0)
        assert "link_sent_bytes_per_s" not in first
        driver.say(gpu0={"field138.all": 3000, "field139.all": 5000, "now_us": 1_500_000})
        (found,) = reader.read(100)
        assert found["link_sent_bytes_per_s"] == 2000 * 1024 * 2
        assert found["link_received_bytes_per_s"] == 0
        driver.say(gpu0={"field138.all": 10, "now_us": 2_000_000})  # counted anew
        (found,) = reader.read(200)
        assert "link_sent_bytes_per_s" not in found

    def test_on_hopper_gpm_is_read_and_counters_where_gpm_has_no_figure(self, driver, opened):
        driver.have({"gpm60": 20, "gpm61": 10})
        reader = opened(0)
        reader.read(0)
        (found,) = reader.read(1)
        assert (found["link_received_bytes_per_s"], found["link_sent_bytes_per_s"]) == (20 << 20, 10 << 20)
        driver.say(gpu0={"gpm60": None, "gpm61": None})
        reader.read(2)
        driver.say(gpu0={"field138.all": 1001, "field139.all": 5000, "now_us": 2_000_000})
        (found,) = reader.read(3)
        assert (found["link_received_bytes_per_s"], found["link_sent_bytes_per_s"]) == (0, 1024)

    def test_rates_do_not_reach_over_a_time_in_which_nobody_watched(self, driver, opened):
        driver.have({})
        reader = opened(0)
        reader.read(0)
        reader.rest()
        driver.say(gpu0={"field138.all": 9000, "now_us": 900_000_000})
        (found,) = reader.read(900)
        assert not {"link_sent_bytes_per_s", "occupancy_permille"} & set(found)
        (found,) = reader.read(901)
        assert found["occupancy_permille"] == 346

    def test_an_older_gpu_has_its_pcie_traffic_sampled(self, driver, opened):
        driver.have({"gpm": 0, "pcie_tx": 2000, "pcie_rx": 300, "field197": 7, "field198": 8})
        reader = opened(0)
        (found,) = reader.read(0)
        assert (found["pcie_sent_bytes_per_s"], found["pcie_received_bytes_per_s"]) == (2048000, 307200)
        assert "occupancy_permille" not in found
        assert reader.remarks() == "not offered by these GPUs: dram, occupancy, tensor"

    def test_counters_of_pcie_are_taken_where_they_are_wide_enough(self, driver, opened):
        driver.have({"gpm": 0, "field197": 1 << 32, "field198": 1 << 33})
        driver.say(pcie_type=3)
        reader = opened(0)
        reader.read(0)
        driver.say(gpu0={"field197": (1 << 32) + 4096, "field198": (1 << 33) + 10, "now_us": 3_000_000})
        (found,) = reader.read(1)
        assert (found["pcie_sent_bytes_per_s"], found["pcie_received_bytes_per_s"]) == (2048, 5)

    def test_a_counter_of_pcie_that_may_go_round_is_not_believed(self, driver, opened):
        driver.have(
            {"gpm": 0, "pcie_tx": 2000, "pcie_rx": 300, "field197": 3020371496, "field198": 3893142392}
        )
        driver.say(pcie_type=3)
        reader = opened(0)
        reader.read(0)
        driver.say(gpu0={"field197": 3020371497, "field198": 3893142393, "now_us": 3_000_000})
        (found,) = reader.read(1)
        assert (found["pcie_sent_bytes_per_s"], found["pcie_received_bytes_per_s"]) == (2048000, 307200)

    def test_an_older_driver_has_older_names(self, driver, opened):
        driver.have(
            {"reserved": None, "reasons": None, "throttle": 4, "slowdown": None, "temperature_max": 83}
        )
        (found,) = opened(0).read(0)
        assert found["driver_used_bytes"] == 61 << 30
        assert (found["slowed"], found["temperature_limit_c"]) == (1, 83)

    @pytest.mark.parametrize(
        ("reasons", "expected"),
        [
            (0x1, []),  # idle
            (0x4, ["power limit"]),
            (0x20, ["heat"]),
            (0x48, ["heat", "hardware slowdown"]),
            (0x88, ["hardware slowdown", "power brake"]),
            (0x10, ["other devices"]),
            (0x2, ["clocks set by hand"]),
        ],
    )
    def test_why_it_is_slow_is_reported_in_the_words_of_the_wire(self, driver, opened, reasons, expected):
        driver.have({"reasons": reasons})
        (found,) = opened(0).read(0)
        assert [word for place, word in enumerate(SLOWED) if found["slowed"] >> place & 1] == expected

    def test_a_figure_that_one_gpu_does_not_have_is_unknown_for_it_alone(self, driver, opened):
        driver.have({"power": "!3", "corrected": None}, {})
        reader = opened(0, 1)
        first, second = reader.read(0)
        assert "power_mw" not in first
        assert second["power_mw"] == 612_345
        assert first["utilization_permille"] == 930
        assert reader.remarks() == "not offered by these GPUs: ecc corrected, power"

    def test_what_was_refused_is_not_asked_again_and_why_is_reported(self, driver, opened):
        driver.have({"energy": "!4"})
        reader = opened(0)
        assert "energy_mj" not in reader.read(0)[0]
        driver.say(gpu0={"energy": 5})
        assert "energy_mj" not in reader.read(1)[0]
        assert reader.remarks() == "not permitted: energy"

    def test_what_failed_once_is_asked_again(self, driver, opened):
        driver.have({"power": "!10", "util": "!999"})
        reader = opened(0)
        assert not {"power_mw", "utilization_permille"} & set(reader.read(0)[0])
        driver.say(gpu0={"power": 5, "util": 1})
        (found,) = reader.read(1)
        assert (found["power_mw"], found["utilization_permille"]) == (5, 10)
        assert reader.remarks() == ""

    def test_a_value_that_means_not_available_is_unknown(self, driver, opened):
        driver.have({"power": 0xFFFFFFFF})
        assert "power_mw" not in opened(0).read(0)[0]

    def test_samples_are_given_back(self, driver, opened):
        driver.have({}, {})
        before = driver.samples
        reader = opened(0, 1)
        for now in range(5):
            reader.read(now)
        assert driver.samples == before + 4
        reader.close()
        assert driver.samples == before


class TestLost:
    def test_the_others_go_on_and_it_is_reported_once(self, driver, opened, events):
        driver.have({}, {})
        reader = opened(0, 1)
        reader.read(0)
        driver.say(gpu0={"lost": 15})
        for now in (1, 2, 3):
            first, second = reader.read(now)
            assert first == {}
            assert second["power_mw"] == 612_345
        assert events == [("critical", "gpu", "GPU 0 (GPU-00000000, device 0) has fallen off the bus")]
        assert reader.remarks() == "lost: GPU 0 (GPU-00000000, device 0); no XIDs"

    def test_beside_another_that_is_lost_it_is_found_all_the_same(self, driver, opened):
        driver.have({}, {}, {"power": 7})
        driver.say(gpu0={"lost": 15}, cuda=3, cuda1=UUIDS[2].removeprefix("GPU-"))
        reader = opened(1)
        assert reader.read(0)[0]["power_mw"] == 7
        driver.say(gpu2={"lost": 15})
        assert reader.read(1) == [{}]
        driver.say(gpu2={"lost": None})
        assert reader.read(20)[0]["power_mw"] == 7

    def test_it_is_read_again_when_it_comes_back(self, driver, opened, events):
        driver.have({})
        reader = opened(0)
        driver.say(gpu0={"lost": 16})
        assert reader.read(1) == [{}]
        driver.say(gpu0={"lost": None})
        assert reader.read(5) == [{}]  # it is not asked each time
        assert reader.read(20)[0]["power_mw"] == 612_345
        assert [text for _, _, text in events] == [
            "GPU 0 (GPU-00000000, device 0) needs a reset",
            "GPU 0 (GPU-00000000, device 0) is back",
        ]
        assert reader.remarks() == ""


class TestXids:
    def test_they_are_events_with_their_number_and_a_few_words(self, driver, opened, events):
        driver.have({}, {})
        reader = opened(0, 1)
        reader.read(0)
        assert events == []
        driver.say(xid1="1 48", xid2="0 12345")
        reader.read(1)
        reader.read(2)
        assert events == [
            ("critical", "xid", "XID 48 on GPU 1 (GPU-11111111, device 1): double bit ECC error"),
            ("critical", "xid", "XID 12345 on GPU 0 (GPU-00000000, device 0)"),
        ]

    def test_one_that_costs_nothing_is_no_alarm(self, driver, opened, events):
        driver.have({})
        reader = opened(0)
        driver.say(xid1="0 63", xid2="0 64")
        reader.read(0)
        assert [severity for severity, _, _ in events] == ["warning", "critical"]

    def test_an_error_that_came_while_nobody_watched_is_reported_as_such(self, driver, opened, events):
        driver.have({})
        reader = opened(0)
        reader.read(0)
        reader.rest()
        driver.say(xid1="0 45")
        reader.read(1000)
        driver.say(xid2="0 12345")
        reader.read(1001)
        assert [text.split(":")[0] for _, _, text in events] == [
            "XID 45 on GPU 0 (GPU-00000000, device 0) while nobody watched",
            "XID 12345 on GPU 0 (GPU-00000000, device 0)",
        ]

    def test_without_them_there_are_figures(self, driver, opened):
        driver.have({"register": "!999"})
        reader = opened(0)
        assert reader.read(0)[0]["power_mw"] == 612_345
        assert reader.remarks() == "no XIDs"

    def test_beside_a_lost_gpu_none_are_heard(self, driver, opened):
        driver.have({}, {})
        reader = opened(0, 1)
        driver.say(gpu1={"lost": 15}, xid1="1 79")
        reader.read(0)
        reader.read(1)
        assert reader.remarks() == "lost: GPU 1 (GPU-11111111, device 1); no XIDs"
        driver.say(gpu1={"lost": None})
        reader.read(20)
        assert reader.remarks() == ""


class TestWhichGpuIsWhich:
    """`local_hardware_id` is the number by which CUDA knows a device, of those it lets the process see."""

    @pytest.fixture
    def see(self, monkeypatch):
        """Make devices visible, or all of them."""

        def see(visible):
            if visible is None:
                monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
            else:
                monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

        return see

    @pytest.fixture(autouse=True)
    def four(self, driver):
        driver.have(*({"power": 1000 + place} for place in range(4)))
        return driver

    @pytest.mark.parametrize(
        ("visible", "ordinals", "expected"),
        [
            (None, (0, 1, 2, 3), (0, 1, 2, 3)),
            ("2,0", (0, 1), (2, 0)),
            (" 3 , 1", (0, 1), (3, 1)),
            ("3", (0,), (3,)),  # a process a GPU
            (f"{UUIDS[2]},{UUIDS[1]}", (0, 1), (2, 1)),
            ("GPU-22,GPU-1", (0, 1), (2, 1)),
            ("0,2", (1, 0), (2, 0)),
            ("1,9,2", (0, 1), (1, None)),  # what is not there ends the list
            ("1,-1,2", (0, 1), (1, None)),
            ("GPU-3,GPU-,2", (0, 1), (3, None)),  # a beginning that all have names none
            (None, (None, 1), (None, 1)),
        ],
    )
    def test_by_what_the_environment_makes_visible(self, opened, see, visible, ordinals, expected):
        see(visible)
        reader = opened(*ordinals)
        assert reader.uuids == tuple(None if place is None else UUIDS[place] for place in expected)
        powers = [each.get("power_mw") for each in reader.read(0)]
        assert powers == [None if place is None else 1000 + place for place in expected]

    @pytest.mark.parametrize("visible", ["", "-1", "1,1", "9", "nonsense"])
    def test_where_nothing_can_be_told_it_is_off_and_says_why(self, opened, see, visible):
        see(visible)
        with pytest.raises(Off, match="these devices cannot be matched to GPUs: CUDA_VISIBLE_DEVICES"):
            opened(0)

    def test_gpus_stand_in_the_order_of_the_bus(self, driver, opened):
        driver.have({"bus": "00000000:90:00.0", "power": 5}, {"bus": "00000000:10:00.0", "power": 6})
        assert [each["power_mw"] for each in opened(0, 1).read(0)] == [6, 5]

    def test_gpus_of_several_kinds_are_numbered_by_speed_unless_told_otherwise(
        self, driver, opened, monkeypatch
    ):
        driver.have({"name": "NVIDIA A2"}, {})
        with pytest.raises(Off, match="set CUDA_DEVICE_ORDER=PCI_BUS_ID"):
            opened(0, 1)
        monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        assert opened(0, 1).uuids == UUIDS[:2]
        monkeypatch.delenv("CUDA_DEVICE_ORDER")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"{UUIDS[1]},{UUIDS[0]}")
        assert opened(0, 1).uuids == (UUIDS[1], UUIDS[0])

    def test_cudas_own_answer_takes_precedence_over_the_environment(self, four, opened, monkeypatch):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
        four.say(cuda=2, cuda0=UUIDS[3].removeprefix("GPU-"), cuda1=UUIDS[1].removeprefix("GPU-"))
        assert opened(0, 1).uuids == (UUIDS[3], UUIDS[1])
        assert opened(1, 2).uuids == (UUIDS[1], None)

    def test_beside_a_lost_gpu_only_names_are_believed(self, four, opened, monkeypatch):
        four.say(gpu1={"lost": 15})
        with pytest.raises(Off, match="a GPU does not answer, so the others cannot be counted"):
            opened(0)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", UUIDS[2])
        assert opened(0).uuids == (UUIDS[2],)

    def test_devices_that_are_not_found_are_reported(self, opened, see):
        see("1")
        reader = opened(0, 1)
        assert reader.remarks() == "1 of 2 devices not found: CUDA_VISIBLE_DEVICES does not name them"


class TestInstances:
    @pytest.fixture(autouse=True)
    def divided(self, driver):
        driver.have({"mig": 2})
        for place in range(2):
            own = {"uuid": INSTANCES[place], "total": 20 << 30, "used": (5 + place) << 30, "reserved": 0}
            driver.say(**{f"gpu0.mig{place}": own | {"gpm3": 10 + place, "gpm5": 20, "gpm10": 30}})
        return driver

    def test_an_instance_has_memory_and_activity_of_its_own_and_the_gpus_heat_and_clocks(
        self, opened, monkeypatch
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", INSTANCES[1])
        reader = opened(0)
        reader.read(0)
        (found,) = reader.read(1)
        assert found == {
            "driver_used_bytes": 6 << 30,
            "driver_total_bytes": 20 << 30,
            "temperature_c": 64,
            "temperature_limit_c": 87,
            "clock_mhz": 1755,
            "clock_max_mhz": 1980,
            "memory_clock_mhz": 2619,
            "slowed": 0,
            "occupancy_permille": 110,
            "tensor_permille": 200,
            "dram_permille": 300,
        }
        assert reader.uuids == (INSTANCES[1],)

    def test_cuda_names_instances(self, divided, opened):
        divided.say(cuda=1, cuda0=INSTANCES[0].removeprefix("MIG-"))
        assert opened(0).uuids == (INSTANCES[0],)

    def test_a_divided_gpu_that_is_visible_as_a_whole_is_left_alone(self, opened):
        with pytest.raises(Off, match="divided into instances"):
            opened(0)

    def test_an_xid_is_the_gpus(self, divided, opened, events, monkeypatch):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(INSTANCES[:2]))
        reader = opened(0, 1)
        divided.say(xid1="0 94")
        reader.read(0)
        assert events[0][2].startswith("XID 94 on GPU 0 (GPU-00000000, devices 0 1): contained memory error")


class TestNoDriver:
    @pytest.mark.parametrize(
        ("error", "words"),
        [
            (9, "the NVIDIA driver is not loaded"),
            (18, "have different versions; reboot"),
            (4, "the NVIDIA driver denies access"),
            (12, "no NVIDIA driver on this machine"),
            (999, "the NVIDIA driver says: Unknown Error"),
        ],
    )
    def test_it_is_said_in_words(self, driver, opened, error, words):
        driver.say(init=error)
        with pytest.raises(Off, match=words):
            opened(0)

    def test_an_older_binding_of_the_same_name_is_said_to_be_in_the_way(self, monkeypatch, opened):
        monkeypatch.setitem(sys.modules, "pynvml", ModuleType("pynvml"))
        with pytest.raises(Off, match="pip uninstall pynvml"):
            opened(0)

    def test_one_that_the_program_itself_shuts_down_can_be_opened_anew(self, driver, opened, events):
        driver.have({})
        reader = opened(0)
        pynvml.nvmlShutdown()
        with pytest.raises(Off, match="another part of the program has shut NVML down"):
            reader.read(0)
        assert events == []
        reader.close()
        assert opened(0).read(0)[0]["power_mw"] == 612_345
