"""A collector of OpenTelemetry that is reached by gRPC. The extra `otlp-grpc` installs what this imports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import grpc
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.util.re import parse_env_headers

from jaxtop.base.names import reason
from jaxtop.cli.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

PORT = 4317
# With these answers the collector says that it will never take this message.
_NEVER = frozenset(
    {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.UNIMPLEMENTED}
)
# Seconds that a message may take, as the SDK has it for HTTP.
_TIMEOUT_S = 10.0


class _ByGrpc:
    """Sends messages of one kind by gRPC."""

    is_refused = False

    def __init__(
        self, channel: grpc.Channel, stub: Callable[[grpc.Channel], Any], encode: Callable[[Any], Any]
    ) -> None:
        self._channel, self._export, self._encode = channel, stub(channel).Export, encode
        self._timeout = float(_variable("TIMEOUT") or _TIMEOUT_S)
        self._headers = tuple(parse_env_headers(_variable("HEADERS"), liberal=True).items())

    def send(self, message: Any) -> str:
        self.is_refused = False
        try:
            self._export(self._encode(message), timeout=self._timeout, metadata=self._headers)
        except grpc.RpcError as error:
            self.is_refused = error.code() in _NEVER
            return f"{error.code().name}: {error.details()}"
        return ""

    def close(self) -> None:
        self._channel.close()


def ways(url: str, *, compresses: bool) -> tuple[_ByGrpc, _ByGrpc]:
    """Return how metrics and logs reach the collector; `grpcs` is gRPC with TLS."""
    scheme, place = urlsplit(url).scheme, urlsplit(url).netloc
    if "@" in place or url.rstrip("/") != f"{scheme}://{place}":
        raise UserError("grpc://HOST:PORT takes no user and no path: log in by OTEL_EXPORTER_OTLP_HEADERS")
    if urlsplit(url).port is None:
        place = f"{place}:{PORT}"
    gzip = compresses or _variable("COMPRESSION") == "gzip"
    compression = grpc.Compression.Gzip if gzip else grpc.Compression.NoCompression
    if scheme == "grpcs":
        channel = grpc.secure_channel(place, _credentials(), compression=compression)
    else:
        channel = grpc.insecure_channel(place, compression=compression)
    stubs = ((MetricsServiceStub, encode_metrics), (LogsServiceStub, encode_logs))
    metrics, logs = (_ByGrpc(channel, stub, encode) for stub, encode in stubs)
    return metrics, logs


def _variable(name: str) -> str:
    return os.environ.get(f"OTEL_EXPORTER_OTLP_{name}", "")


def _credentials() -> grpc.ChannelCredentials:
    """Return the credentials of both sides; without a file, the authorities that gRPC trusts."""
    files = (_variable(name) for name in ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"))
    try:
        read = (Path(each).read_bytes() if each else None for each in files)
        return grpc.ssl_channel_credentials(*read)
    except OSError as error:
        raise UserError(f"{error.filename}: {reason(error)}") from None
