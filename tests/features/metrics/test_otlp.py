"""OpenTelemetry: what a collector receives over OTLP/HTTP, and what happens while it takes nothing."""

from __future__ import annotations

import gzip
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from jaxtop import cli
from jaxtop.cli.errors import UserError
from jaxtop.cli.serving.watched_cluster import WatchedCluster
from jaxtop.export.metrics import METRICS
from jaxtop.export.samples import snapshot
from jaxtop.features.metrics.otlp import metrics
from jaxtop.features.metrics.otlp import push as otlp
from jaxtop.features.metrics.otlp.collector import OtlpCollector
from jaxtop.model import Cluster
from tests import builders
from tests.features.metrics.served import Frames
from tests.made.clusters import HOSTILE, NOW, cluster, everything
from tests.support import eventually

TYPES: dict[str, Any] = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/logs": ExportLogsServiceRequest}


class Receiver:
    """A collector: an HTTP server that decodes what it is sent, and answers with the status of the moment."""

    def __init__(self) -> None:
        self.status = {"/v1/metrics": 200, "/v1/logs": 200}
        self.messages: dict[str, list] = {"/v1/metrics": [], "/v1/logs": []}
        self.headers: list = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.headers.append(self.headers)
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.headers["Content-Type"] == "application/x-protobuf"
                message = TYPES[self.path].FromString(body)
                status = receiver.status[self.path]
                if status == 200:
                    receiver.messages[self.path].append(message)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def points(self) -> dict[tuple, float]:
        """The value of each point by metric and labels, and by attributes of its resource."""
        found = {}
        for message in self.messages["/v1/metrics"]:
            for resource in message.resource_metrics:
                for metric in resource.scope_metrics[0].metrics:
                    for point in getattr(metric, metric.WhichOneof("data")).data_points:
                        value = getattr(point, point.WhichOneof("value"))
                        found[metric.name, frozenset(texts(point.attributes).items())] = value
        return found

    def records(self) -> list[tuple[dict, object]]:
        """The log records, with the attributes of their resources."""
        return [
            (values(resource.resource.attributes), record)
            for message in self.messages["/v1/logs"]
            for resource in message.resource_logs
            for record in resource.scope_logs[0].log_records
        ]


def values(attributes) -> dict[str, object]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def texts(attributes) -> dict[str, str]:
    return {name: str(value) for name, value in values(attributes).items()}


@pytest.fixture
def receiver():
    with Receiver() as opened:
        yield opened


def push(made: Cluster, url: str, now: float = NOW, detail: str = "program") -> otlp.Push:
    return otlp.Push(WatchedCluster(made, lambda: now), OtlpCollector(url), detail, 3600)


# Info metrics have the names by which boards and alert rules join them.
OTLP_NAMES = {"run": "jaxtop_run_info", "host": "jaxtop_host_info", "device": "jaxtop_device_info"}


def test_a_collector_gets_every_sample_of_the_snapshot(receiver):
    push(everything(), receiver.url).send()
    expected = {
        (
            OTLP_NAMES.get(name, f"jaxtop_{name}"),
            frozenset((key, str(text)) for key, text in {**where, **labels}.items() if text is not None),
        ): value
        for name, where, labels, value in snapshot(everything(), NOW)
        if HOSTILE not in labels.values()
    }
    found = receiver.points()
    assert expected.items() <= found.items()
    assert len(found) == len(expected) + 1, "and a thread whose name has control characters"


def two_processes() -> Cluster:
    """A run that is well but for one process, which has died."""
    return builders.folded([*builders.well(), builders.trouble(1, "closed")])


def test_processes_that_have_no_index_yet_are_apart(receiver):
    made = Cluster()
    for i in range(2):
        early = builders.hello(i, process_index=None, hostname="node00")
        made.feed(builders.frame(builders.agent_id(i), early))
        made.feed(builders.frame(builders.agent_id(i), builders.pulse(i)))
    series = [(each.metric, *{**each.where, **each.labels}.items()) for each in snapshot(made, builders.NOW)]
    assert len(series) == len(set(series)) > 10
    push(made, receiver.url, builders.NOW).send()
    [message] = receiver.messages["/v1/metrics"]
    pids = {texts(each.resource.attributes).get("process.pid") for each in message.resource_metrics}
    assert {"1000", "1001"} <= pids


def test_each_process_is_a_resource_and_counters_are_sums_since_its_start(receiver):
    push(everything(), receiver.url).send()
    [message] = receiver.messages["/v1/metrics"]
    of_process, of_run = sorted(
        (values(each.resource.attributes) for each in message.resource_metrics),
        key=lambda its: "host.name" not in its,
    )
    assert of_process["service.name"] == of_run["service.name"] == "train"
    assert of_process["jaxtop.run.id"] == of_run["jaxtop.run.id"] == "r1"
    assert (of_process["host.name"], of_process["service.instance.id"]) == ("node0", "r1-0")
    assert isinstance(of_process["process.pid"], int) and of_process["telemetry.sdk.name"] == "opentelemetry"
    assert "process.pid" not in of_run
    sums = {
        metric.name: metric
        for each in message.resource_metrics
        for metric in each.scope_metrics[0].metrics
        if metric.HasField("sum")
    }
    assert all(each.sum.is_monotonic and each.sum.aggregation_temporality == 2 for each in sums.values())
    started = everything().hosts["r1-0"].hello.started_ms * 1_000_000
    assert sums["jaxtop_steps"].sum.data_points[0].start_time_unix_nano == started
    assert sums["jaxtop_device_energy_joules"].sum.data_points[0].start_time_unix_nano == 0
    assert {each.unit for each in sums.values()} == {"", "J", "s"}


def test_every_unit_of_a_metric_has_a_unit_of_opentelemetry():
    assert {each.unit for each in METRICS.values()} <= metrics.UNITS.keys()


def test_detail_bounds_what_is_sent(receiver):
    push(everything(), receiver.url, detail="host").send()
    assert not any("device" in dict(labels) for _, labels in receiver.points())


def test_a_large_run_is_sent_in_several_messages(receiver, monkeypatch):
    monkeypatch.setattr(metrics, "MAX_POINTS", 10)
    made = builders.folded(builders.well(processes=8))
    push(made, receiver.url, builders.NOW).send()
    assert len(receiver.messages["/v1/metrics"]) == 9, "one for each process, and one for the run"


def test_events_and_findings_are_records_and_each_is_sent_once(receiver):
    now = [builders.NOW]
    watched = WatchedCluster(Cluster(), lambda: now[0])
    sending = otlp.Push(watched, OtlpCollector(receiver.url), "run", 3600)
    watched.take(Frames(*builders.well()))
    sending.send()
    before = len(receiver.records())
    now[0] += 1
    watched.take(Frames(builders.trouble(1, "closed")))
    for _ in range(3):
        now[0] += 10
        watched.take(Frames())
        sending.send()
    news = [(its, record) for its, record in receiver.records()[before:]]
    of_findings = [(its, record) for its, record in news if record.event_name == "jaxtop.finding"]
    lost = [(its, values(record.attributes), record) for its, record in of_findings]
    # The other process sends nothing either, and is found to be blocked later.
    [(resource, attributes, record)] = [
        each for each in lost if each[1]["finding.subject.process_index"] == 1
    ]
    assert (attributes["finding.event"], attributes["finding.rule"]) == ("start", "host_lost")
    assert record.severity_number == 17 and "Host lost" in record.body.string_value
    assert resource["jaxtop.process.index"] == 1
    assert record.time_unix_nano <= record.observed_time_unix_nano
    died = [record for _, record in news if record.event_name == "jaxtop.died"]
    assert len(died) == 1 and values(died[0].attributes)["process_index"] == 1


def test_texts_that_cannot_be_encoded_are_escaped(receiver):
    push(cluster(HOSTILE + "\ud800", HOSTILE, HOSTILE), receiver.url).send()
    assert receiver.points() and receiver.records()


def test_a_collector_that_takes_nothing_is_reported_once_and_logs_wait(receiver, capsys):
    made = two_processes()
    sending = push(made, receiver.url, builders.NOW)
    receiver.status = {"/v1/metrics": 401, "/v1/logs": 404}
    for _ in range(3):
        sending.send()
    said = f"jaxtop: the collector at {receiver.url.removeprefix('http://')}"
    assert capsys.readouterr().err.splitlines() == [
        f"{said} does not take metrics: HTTP status 401; trying again until it does",
        f"{said} does not take logs: HTTP status 404; trying again until it does",
    ]
    receiver.status = {"/v1/metrics": 200, "/v1/logs": 200}
    sending.send()
    assert capsys.readouterr().err.splitlines() == [
        f"{said} takes metrics again; 3 attempts had failed",
        f"{said} takes logs again; 3 attempts had failed",
    ]
    assert [record.event_name for _, record in receiver.records()].count("jaxtop.died") == 1


def test_a_redirect_is_no_success(receiver, capsys):
    receiver.status["/v1/metrics"] = 302
    push(everything(), receiver.url, detail="run").send()
    assert "does not take metrics: HTTP status 302;" in capsys.readouterr().err


def test_what_a_collector_will_never_take_is_lost_and_does_not_hold_up_the_rest(receiver, capsys):
    made = two_processes()
    sending = push(made, receiver.url, builders.NOW)
    receiver.status["/v1/logs"] = 400
    sending.send()
    assert not sending._waiting
    assert "does not take logs: HTTP status 400; these are lost" in capsys.readouterr().err
    receiver.status["/v1/logs"] = 200
    made.feed(builders.trouble(0, "closed"))
    sending.send()
    assert "1 attempts had failed, 1 records were lost" in capsys.readouterr().err


def test_records_that_wait_are_bounded_and_the_lost_ones_are_counted(receiver, monkeypatch, capsys):
    monkeypatch.setattr(otlp, "MAX_WAITING", 1)
    made = builders.folded([*builders.well(), *(builders.trouble(i, "closed") for i in range(2))])
    sending = push(made, receiver.url, builders.NOW)
    receiver.status["/v1/logs"] = 404
    sending.send()
    receiver.status["/v1/logs"] = 200
    sending.send()
    assert len(receiver.records()) == 1
    assert "records were lost" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "why"),
    [("http://127.0.0.1:1", "connection refused"), ("https://127.0.0.1:1", "connection refused")],
)
def test_a_collector_that_is_not_there_is_named_with_the_reason(address, why, capsys, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    push(everything(), address).send()
    first, *_ = capsys.readouterr().err.splitlines()
    assert first.endswith(f"does not take metrics: {why}; trying again until it does")


def test_a_collector_that_never_answers_does_not_hold_up_the_end(monkeypatch, capsys):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.3")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sending = push(everything(), f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(sending, "_interval", 0.1)
        with sending:
            eventually(lambda: "timed out" in capsys.readouterr().err, every=0.05)
    assert not sending._thread.is_alive()


def test_passwords_and_headers_are_sent_and_never_shown(receiver, monkeypatch, capsys):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=sesame")
    host = receiver.url.removeprefix("http://")
    receiver.status["/v1/metrics"] = 403
    push(everything(), f"http://user:open@{host}/").send()
    assert receiver.headers[0]["x-token"] == "sesame"
    assert receiver.headers[0]["Authorization"].startswith("Basic ")
    assert receiver.headers[0]["Content-Encoding"] == "gzip"
    assert "open" not in capsys.readouterr().err


def test_the_environment_sets_the_compression(receiver, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    push(everything(), receiver.url).send()
    assert receiver.points() and receiver.headers[0]["Content-Encoding"] is None


@pytest.mark.parametrize(
    "address",
    [
        "localhost:4318",
        "ftp://localhost:4317",
        "http://",
        "grpc://",
        "http://a:99999",
        "http://a/?x=1",
        "http://[::1",
    ],
)
def test_an_address_of_no_collector_is_refused_in_one_line(address):
    with pytest.raises(UserError, match="--otlp takes the address of a collector"):
        OtlpCollector(address)


def test_without_the_sdk_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.delattr("jaxtop.features.metrics.otlp.collector", raising=False)
    monkeypatch.delitem(sys.modules, "jaxtop.features.metrics.otlp.collector")
    monkeypatch.setitem(sys.modules, "requests", None)
    assert cli.main(["exporter", "--otlp", "http://localhost:4318", "127.0.0.1:1"]) == 2
    assert capsys.readouterr().err == (
        "jaxtop: --otlp needs the OpenTelemetry SDK: pip install 'jaxtop[otlp]'\n"
    )
