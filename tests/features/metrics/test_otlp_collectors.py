"""OpenTelemetry with others: OTLP over gRPC, and Rotel, a collector that is a program of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
from concurrent import futures
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs_service
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_service
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from jaxtop import cli
from jaxtop.cli.errors import UserError
from jaxtop.features.metrics.otlp.collector import OtlpCollector
from tests import builders
from tests.features.metrics.test_otlp import Receiver, push, two_processes
from tests.made.clusters import everything
from tests.support import eventually, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator


class GrpcReceiver(Receiver):
    """The same collector, for gRPC; a status that is not 200 is the name of an error."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata: list[dict[str, str]] = []
        self.rpc = grpc.server(futures.ThreadPoolExecutor(4))
        receiver = self

        class Metrics(metrics_service.MetricsServiceServicer):
            def Export(self, request, context):  # noqa: N802 - the service names it
                receiver.take("/v1/metrics", request, context)
                return ExportMetricsServiceResponse()

        class Logs(logs_service.LogsServiceServicer):
            def Export(self, request, context):  # noqa: N802 - the service names it
                receiver.take("/v1/logs", request, context)
                return ExportLogsServiceResponse()

        metrics_service.add_MetricsServiceServicer_to_server(Metrics(), self.rpc)
        logs_service.add_LogsServiceServicer_to_server(Logs(), self.rpc)
        self.place = f"127.0.0.1:{self.rpc.add_insecure_port('127.0.0.1:0')}"

    def take(self, path: str, request: object, context: grpc.ServicerContext) -> None:
        self.metadata.append(dict(context.invocation_metadata()))
        if self.status[path] != 200:
            context.abort(grpc.StatusCode[self.status[path]], "not now")
        self.messages[path].append(request)

    def __enter__(self):
        self.rpc.start()
        return super().__enter__()

    def __exit__(self, *error):
        self.rpc.stop(None)
        super().__exit__(*error)


@pytest.fixture
def by_grpc():
    with GrpcReceiver() as opened:
        yield opened


@pytest.fixture
def by_http():
    with Receiver() as opened:
        yield opened


class TestGrpc:
    def test_a_collector_gets_what_it_gets_over_http(self, by_grpc, by_http, monkeypatch):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=sesame")
        push(everything(), f"grpc://{by_grpc.place}").send()
        push(everything(), by_http.url).send()
        assert by_grpc.points() == by_http.points() != {}
        assert [str(each) for each in by_grpc.records()] == [str(each) for each in by_http.records()]
        assert by_grpc.metadata[0]["x-token"] == "sesame"

    def test_what_it_does_not_take_is_reported_once_and_logs_wait(self, by_grpc, capsys):
        sending = push(two_processes(), f"grpc://{by_grpc.place}/", builders.NOW)
        by_grpc.status = {"/v1/metrics": "UNAUTHENTICATED", "/v1/logs": "PERMISSION_DENIED"}
        for _ in range(2):
            sending.send()
        said = f"jaxtop: the collector at {by_grpc.place}"
        assert capsys.readouterr().err.splitlines() == [
            f"{said} does not take metrics: UNAUTHENTICATED: not now; trying again until it does",
            f"{said} does not take logs: PERMISSION_DENIED: not now; trying again until it does",
        ]
        by_grpc.status = {"/v1/metrics": 200, "/v1/logs": 200}
        sending.send()
        assert f"{said} takes logs again; 2 attempts had failed\n" in capsys.readouterr().err
        assert [record.event_name for _, record in by_grpc.records()].count("jaxtop.died") == 1

    def test_what_it_will_never_take_is_lost(self, by_grpc, capsys):
        sending = push(two_processes(), f"grpc://{by_grpc.place}", builders.NOW)
        by_grpc.status["/v1/logs"] = "INVALID_ARGUMENT"
        sending.send()
        assert not sending._waiting and "these are lost" in capsys.readouterr().err

    def test_one_that_is_not_there_is_named_with_the_reason(self, capsys, monkeypatch):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
        push(everything(), "grpc://127.0.0.1:1").send()
        first, *_ = capsys.readouterr().err.splitlines()
        assert "the collector at 127.0.0.1:1 does not take metrics: UNAVAILABLE" in first
        assert "Connection refused" in first and first.endswith("trying again until it does")

    @pytest.mark.parametrize("address", ["grpc://user:open@h:4317", "grpc://h:4317/path"])
    def test_what_an_address_of_grpc_cannot_have_is_refused(self, address):
        with pytest.raises(UserError, match="takes no user and no path") as refused:
            OtlpCollector(address)
        assert "open" not in str(refused.value)


def test_a_variable_that_cannot_be_used_is_named(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
    with pytest.raises(UserError, match="OTEL_EXPORTER_OTLP_TIMEOUT cannot be used"):
        OtlpCollector("grpc://localhost")


def test_without_its_package_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.delattr("jaxtop.features.metrics.otlp.collector_grpc", raising=False)
    monkeypatch.delitem(sys.modules, "jaxtop.features.metrics.otlp.collector_grpc", raising=False)
    monkeypatch.setitem(sys.modules, "grpc", None)
    assert cli.main(["exporter", "--otlp", "grpc://localhost:4317", "127.0.0.1:1"]) == 2
    assert (
        capsys.readouterr().err == "jaxtop: --otlp grpc://… needs grpcio: pip install 'jaxtop[otlp-grpc]'\n"
    )


def _rotel() -> Path | None:
    """Return the program of the collector; None if its package is missing, or does not run here."""
    found = find_spec("rotel")
    if found is None or found.origin is None:
        return None
    program = Path(found.origin).parent / "rotel-agent"
    try:
        done = subprocess.run([program, "--version"], capture_output=True, check=False, timeout=30)
    except OSError:
        return None
    return program if done.returncode == 0 else None


@contextmanager
def rotel(program: Path, folder: Path, behind: str) -> Iterator[dict[str, str]]:
    """Run the collector, which passes on what it takes; yield its addresses by scheme."""
    ports = {"http": free_port(), "grpc": free_port()}
    options = {
        "pid-file": folder / "pid",
        "log-file": folder / "log",
        "otlp-http-endpoint": f"127.0.0.1:{ports['http']}",
        "otlp-grpc-endpoint": f"127.0.0.1:{ports['grpc']}",
        "exporter": "otlp",
        "otlp-exporter-protocol": "http",
        "otlp-exporter-endpoint": behind,
    }
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen([program, "start", *words], stdout=output, stderr=output)
    try:
        for port in ports.values():
            eventually(lambda port=port: _listens(port))
        yield {scheme: f"{scheme}://127.0.0.1:{port}" for scheme, port in ports.items()}
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_collector_passes_everything_on(by_http, tmp_path, capsys, scheme):
    """All points and all records arrive behind a collector that is not ours."""
    program = _rotel()
    if program is None:
        pytest.skip("Rotel is not installed, or does not run on this machine")
    with Receiver() as direct, rotel(program, tmp_path, by_http.url) as addresses:
        push(everything(), direct.url).send()
        push(everything(), addresses[scheme]).send()
        eventually(lambda: len(by_http.points()) == len(direct.points()))
        eventually(lambda: len(by_http.records()) == len(direct.records()))
    assert by_http.points() == direct.points()
    assert [record for _, record in by_http.records()] == [record for _, record in direct.records()]
    assert not capsys.readouterr().err
