"""TPUs, through the metric service of their runtime: a stand-in that speaks the real protocol."""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import ExitStack

import pytest

from jaxtop.base import protobuf
from jaxtop.wire import Device
from jaxtop_agent.hardware import grpc
from jaxtop_agent.hardware import tpu as reading
from jaxtop_agent.hardware.distribution import Buckets
from jaxtop_agent.hardware.reader import Off
from jaxtop_agent.hardware.tpu import Tpu
from tests.standin.tpu import (
    DUTY,
    PROGRAMS,
    QUEUE,
    TOTAL,
    TRANSFERS,
    USED,
    distribution,
    explicit,
    exponential,
    found_by_the_agent,
    gauge,
    linear,
    serving,
)

GIB = 1 << 30


@pytest.fixture
def service(monkeypatch):
    with found_by_the_agent(monkeypatch) as service:
        yield service


def chips(*ids, local=None, coords=lambda _: None):
    """Devices with these ids; their numbers on the host count from 0."""
    places = local or range(len(ids))
    return [
        Device(each, "TPU v6e", "tpu", place, coords=coords(i))
        for i, (each, place) in enumerate(zip(ids, places, strict=True))
    ]


class TestFigures:
    def test_memory_duty_cycle_and_queue_of_each_device(self, service):
        service.metrics = {
            USED: [gauge(5 * GIB, 1), gauge(0, 0)],
            TOTAL: [gauge(32 * GIB, 0), gauge(32 * GIB, 1)],
            DUTY: [gauge(87.5, 0), gauge(0.0, 1)],
            QUEUE: [
                gauge(3, {"device_ordinal": "0", "core_type": "TensorCore"}, ""),
                gauge(2, {"core_type": "SparseCore", "device_ordinal": "0"}, ""),
                gauge(0, {"device_ordinal": 1, "core_type": "TensorCore"}, ""),
            ],
        }
        assert Tpu(chips(0, 1)).read(0) == [
            {
                "driver_used_bytes": 0,
                "driver_total_bytes": 32 * GIB,
                "utilization_permille": 875,
                "queued": 5,
            },
            {
                "driver_used_bytes": 5 * GIB,
                "driver_total_bytes": 32 * GIB,
                "utilization_permille": 0,
                "queued": 0,
            },
        ]

    def test_without_credentials_it_is_the_same(self, monkeypatch):
        with serving(local=False) as service:
            monkeypatch.setenv("TPU_RUNTIME_METRICS_PORTS", str(service.port))
            service.metrics = {USED: [gauge(1, 0)]}
            assert Tpu(chips(0)).read(0) == [{"driver_used_bytes": 1}]

    def test_what_the_runtime_does_not_offer_is_not_asked_for(self, service):
        service.metrics = {USED: [gauge(7, 0)], "other": []}
        assert Tpu(chips(0)).read(0) == [{"driver_used_bytes": 7}]
        assert service.asked == [USED]

    def test_a_runtime_that_cannot_list_is_asked_for_all(self, service):
        service.can_list = False
        service.metrics = {DUTY: [gauge(50.0, 0)]}
        assert Tpu(chips(0)).read(0) == [{"utilization_permille": 500}]

    def test_several_ports_are_put_together(self, service, monkeypatch):
        with serving() as other:
            monkeypatch.setenv("TPU_RUNTIME_METRICS_PORTS", f"{service.port},{other.port}")
            service.metrics = {USED: [gauge(1, 0), gauge(2, 1)]}
            other.metrics = {USED: [gauge(2, 1), gauge(1, 0)], DUTY: [gauge(5.0, 1), gauge(4.0, 0)]}
            assert Tpu(chips(0, 1)).read(0) == [
                {"driver_used_bytes": 1, "utilization_permille": 40},
                {"driver_used_bytes": 2, "utilization_permille": 50},
            ]

    def test_a_long_answer_comes_whole(self, service):
        """More than one frame, and more than the window that a connection begins with."""
        service.metrics = {USED: [gauge(i, i) for i in range(20_000)]}
        assert Tpu(chips(19_999)).read(0) == [{"driver_used_bytes": 19_999}]


class TestWhichDeviceIsWhich:
    def used(self, service, ids):
        service.metrics = {USED: [gauge(1000 + each, each) for each in ids]}

    @pytest.mark.parametrize(
        ("ids", "devices", "expected"),
        [
            ((8, 9, 12, 13), chips(8, 9, 12, 13), (1008, 1009, 1012, 1013)),
            ((0, 1, 2, 3), chips(2), (1002,)),  # a process a chip, told of the whole host
            ((0, 1), chips(4, 5), (1000, 1001)),  # numbers on the host
            ((0, 1), chips(4, 5, local=(1, 0)), (1001, 1000)),
            ((0, 1, 2, 3), chips(4, 5), (None, None)),  # which two of these four?
            ((7,), chips(4, 5), (None, None)),
        ],
    )
    def test_by_jaxs_ids_or_by_numbers_on_the_host(self, service, ids, devices, expected):
        self.used(service, ids)
        reader = Tpu(devices)
        assert tuple(each.get("driver_used_bytes") for each in reader.read(0)) == expected
        assert bool(reader.remarks()) == (expected[0] is None)

    def test_figures_of_chips_that_match_no_device_are_named(self, service):
        self.used(service, (7,))
        reader = Tpu(chips(0))
        reader.read(0)
        assert reader.remarks() == "cannot be matched to devices: driver"

    def test_both_cores_of_a_chip_have_its_duty_cycle(self, service):
        service.metrics = {
            USED: [gauge(each, each) for each in range(4)],
            DUTY: [gauge(10.0, 0), gauge(20.0, 1)],
        }
        devices = chips(0, 1, 2, 3, coords=lambda i: (i // 2, 0, 0))
        found = Tpu(devices).read(0)
        assert [each["utilization_permille"] for each in found] == [100, 100, 200, 200]

    def test_processes_that_each_count_from_0_are_not_taken_for_one_another(self, service, monkeypatch):
        with serving() as other:
            monkeypatch.setenv("TPU_RUNTIME_METRICS_PORTS", f"{service.port},{other.port}")
            self.used(service, (0,))
            other.metrics = {USED: [gauge(5000, 0)]}
            assert Tpu(chips(1, local=(0,))).read(0) == [{}]
            self.used(service, (0, 1))
            other.metrics = {USED: [gauge(5000, 0), gauge(5001, 1)]}
            assert Tpu(chips(2, 3, local=(0, 1))).read(0) == [{}, {}]
            assert Tpu(chips(0, 1, local=(0, 1))).read(0) == [{}, {}]

    def test_a_value_without_a_device_is_nobodys(self, service):
        service.metrics = {QUEUE: [gauge(5, {"core_type": "TensorCore"}, ""), gauge(5, "one", "")]}
        assert Tpu(chips(0)).read(0) == [{}]


class TestTransfers:
    def test_percentiles_are_of_what_was_transferred_since_the_last_time(self, service):
        buckets = exponential(3, 10.0, 1.0)  # below 1, 1 to 10, to 100, to 1000, beyond
        service.metrics = {TRANSFERS: [distribution([0, 50, 0, 0, 0], buckets)]}
        reader = Tpu(chips(0, 1))
        assert reader.read(0) == [{}, {}]
        service.metrics[TRANSFERS] = [
            distribution([0, 50, 50, 0, 0], buckets),
            distribution([0, 0, 49, 0, 1], buckets, "4MB+"),
        ]
        first, second = reader.read(1)
        assert first == second == {"transfer_p50_us": 55, "transfer_p99_us": 100}
        assert reader.read(2) == [{}, {}]  # nothing moved

    def test_a_restarted_runtime_has_no_figures_at_first(self, service):
        service.metrics = {TRANSFERS: [distribution([5, 5], explicit(10.0))]}
        reader = Tpu(chips(0))
        reader.read(0)
        service.metrics = {TRANSFERS: [distribution([1, 0], explicit(10.0))]}
        assert reader.read(1) == [{}]
        service.metrics = {TRANSFERS: [distribution([1, 4], explicit(10.0))]}
        assert reader.read(2) == [{"transfer_p50_us": 10, "transfer_p99_us": 10}]

    def test_even_buckets(self, service):
        service.metrics = {TRANSFERS: [distribution([], linear(2, 100.0, 0.0))]}
        reader = Tpu(chips(0))
        reader.read(0)
        service.metrics = {TRANSFERS: [distribution([0, 0, 2], linear(2, 100.0, 0.0))]}
        assert reader.read(1) == [{"transfer_p50_us": 150, "transfer_p99_us": 199}]

    def test_of_nothing_there_is_no_percentile(self):
        assert Buckets((1.0, 2.0), (0, 0, 0)).percentile(0.5) is None


class TestNoService:
    def test_a_port_where_nobody_is(self, monkeypatch):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            monkeypatch.setenv("TPU_RUNTIME_METRICS_PORTS", str(free.getsockname()[1]))
            with pytest.raises(Off, match="the TPU runtime's metric service does not answer"):
                Tpu(chips(0))

    def test_one_that_never_answers(self, service, monkeypatch):
        monkeypatch.setattr(reading, "ROUND_TIMEOUT_S", 0.3)
        service.hold.clear()
        with pytest.raises(Off, match="no answer in time"):
            Tpu(chips(0))

    def test_one_that_goes_away(self, monkeypatch):
        with ExitStack() as stack:
            service = stack.enter_context(serving())
            monkeypatch.setenv("TPU_RUNTIME_METRICS_PORTS", str(service.port))
            service.metrics = {USED: [gauge(1, 0)]}
            reader = Tpu(chips(0))
            reader.read(0)
            stack.close()
            with pytest.raises(Off, match="does not answer"):
                reader.read(1)

    def test_one_that_speaks_something_else(self, monkeypatch):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            monkeypatch.setenv("TPU_RUNTIME_METRICS_PORTS", str(listener.getsockname()[1]))

            def greet():
                other, _ = listener.accept()
                with other:
                    other.sendall(b"SSH-2.0-OpenSSH_9.6\r\n" * 9)

            thread = threading.Thread(target=greet)
            thread.start()
            with pytest.raises(Off, match="does not answer"):
                Tpu(chips(0))
            thread.join()

    def test_without_h2_it_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "jaxtop_agent.hardware.grpc", None)
        monkeypatch.delattr("jaxtop_agent.hardware.grpc", raising=False)
        with pytest.raises(Off, match=r"pip install 'jaxtop\[tpu\]'"):
            Tpu(chips(0))

    def test_the_port_is_googles_unless_told_otherwise(self, monkeypatch):
        monkeypatch.delenv("TPU_RUNTIME_METRICS_PORTS", raising=False)
        assert reading.ports() == (8431,)
        monkeypatch.setenv("TPU_RUNTIME_METRICS_PORTS", "8431,8432")
        assert reading.ports() == (8431, 8432)


@pytest.mark.parametrize(
    "raw",
    [b"\x08", b"\x08" + b"\xff" * 11, b"\x0a\x05abc", b"\x0b", b"\x09abc"],
    ids=["cut", "endless", "short", "group", "short double"],
)
def test_bytes_that_are_no_message_are_refused(raw):
    with pytest.raises(protobuf.Malformed):
        protobuf.read(raw)


def test_ports_that_do_not_answer_share_one_time_limit(monkeypatch):
    """A driver's thread that waits longer would look like one that hangs."""
    asked = []

    def call(port, path, requests, seconds, real=grpc.call):
        asked.append(seconds)
        return real(port, path, requests, seconds)

    monkeypatch.setattr(grpc, "call", call)
    monkeypatch.setattr(reading, "ROUND_TIMEOUT_S", 0.3)
    with ExitStack() as held:
        silent = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        listed = ",".join(str(each.getsockname()[1]) for each in silent)
        monkeypatch.setenv("TPU_RUNTIME_METRICS_PORTS", listed)
        with pytest.raises(Off, match="no answer in time"):
            Tpu(chips(0))
    assert len(asked) == 3 and 0 < sum(asked) <= 0.3


class TestMoreFigures:
    """As tpu-info names them."""

    def test_bandwidth_and_idle_time(self, service):
        service.metrics = {
            "tpu.runtime.hbm.utilization.percent": [gauge(41.5, 0), gauge(0.0, 1)],
            "tpu.runtime.tensorcore.idle_duration.seconds": [gauge(0.25, 0), gauge(12.0, 1)],
        }
        assert Tpu(chips(0, 1)).read(0) == [
            {"dram_permille": 415, "idle_ms": 250},
            {"dram_permille": 0, "idle_ms": 12_000},
        ]

    def test_programs_of_each_device_are_timed_since_the_last_reading(self, service):
        def timed(device, *counts):
            attributes = {"device_ordinal": str(device), "core_type": "TensorCore"}
            return distribution(counts, exponential(3, 10.0, 1.0), attributes=attributes)

        service.metrics = {PROGRAMS: [timed(0, 0, 9, 0, 0, 0), timed(1, 0, 0, 0, 0, 0)]}
        reader = Tpu(chips(0, 1))
        assert reader.read(0) == [{}, {}]
        service.metrics[PROGRAMS] = [timed(0, 0, 9, 2, 0, 0), timed(1, 0, 0, 0, 10, 0)]
        assert reader.read(1) == [
            {"program_p50_us": 55, "program_p99_us": 99},
            {"program_p50_us": 550, "program_p99_us": 991},
        ]
        assert reader.read(2) == [{}, {}]
        reader.rest()
        service.metrics[PROGRAMS] = [timed(0, 0, 9, 4, 0, 0), timed(1, 0, 0, 0, 12, 0)]
        assert reader.read(3) == [{}, {}]  # nobody watched, so it would be of an unknown time

    def test_programs_of_unknown_devices_are_nobodys(self, service):
        attributes = {"device_ordinal": "7", "core_type": "TensorCore"}
        service.metrics = {PROGRAMS: [distribution([1], explicit(10.0), attributes=attributes)]}
        reader = Tpu(chips(0, 1))
        assert reader.read(0) == [{}, {}]
        assert reader.remarks() == "cannot be matched to devices: program"

    def test_transfers_and_collectives_are_those_of_the_process(self, service):
        def counted(*counts):
            return [distribution(counts, exponential(3, 10.0, 1.0))]

        service.metrics = {name: counted(0, 0, 0, 0, 0) for name in reading.LATENCIES.values()}
        reader = Tpu(chips(0, 1))
        reader.read(0)
        service.metrics |= {
            reading.LATENCIES["from_host"]: counted(0, 4, 0, 0, 0),
            reading.LATENCIES["to_host"]: counted(0, 0, 4, 0, 0),
            reading.LATENCIES["collective"]: counted(0, 0, 0, 4, 0),
        }
        both = {
            "from_host_p50_us": 6, "from_host_p99_us": 10, "to_host_p50_us": 55, "to_host_p99_us": 99,
            "collective_p50_us": 550, "collective_p99_us": 991,
        }  # fmt: skip
        assert reader.read(1) == [both, both]

    def test_the_names_are_those_of_tpu_info(self):
        metrics = pytest.importorskip("tpu_info.metrics", reason="Google's tpu-info is not installed")
        assert {each.value for each in metrics.MetricName} >= reading.METRICS

    def test_answers_made_by_googles_own_messages(self, service):
        pb2 = pytest.importorskip(
            "tpu_info.proto.tpu_metric_service_pb2", reason="Google's tpu-info is not installed"
        )
        ordinal = pb2.Attribute(key="device_ordinal", value=pb2.AttrValue(string_attr="1"))
        kind = pb2.Attribute(key="core_type", value=pb2.AttrValue(string_attr="TensorCore"))
        among = pb2.AttrValue(kvlist_attr=pb2.KeyValueList(attributes=[ordinal, kind]))

        def timed(count):
            made = pb2.Metric(attribute=pb2.Attribute(key="device", value=among))
            made.distribution.count = count
            options = made.distribution.bucket_options.exponential_buckets
            options.num_finite_buckets, options.growth_factor, options.scale = 3, 10.0, 1.0
            made.distribution.bucket_counts.extend([0, 0, count, 0, 0])
            return made.SerializeToString()

        idle = pb2.Metric(attribute=pb2.Attribute(key="device-id", value=pb2.AttrValue(int_attr=1)))
        idle.timestamp.GetCurrentTime()
        idle.gauge.as_double = 3.5
        name = "tpu.runtime.tensorcore.idle_duration.seconds"
        service.metrics = {name: [idle.SerializeToString()], PROGRAMS: [timed(5)]}
        reader = Tpu(chips(1))
        assert reader.read(0) == [{"idle_ms": 3500}]
        service.metrics[PROGRAMS] = [timed(9)]
        assert reader.read(1) == [{"idle_ms": 3500, "program_p50_us": 55, "program_p99_us": 99}]
        assert pb2.MetricRequest.FromString(protobuf.text_field(1, name)).metric_name == name
