"""The collector of OpenTelemetry that metrics and logs go to: what sends to it, and what it does not take.

The extra `otlp` installs what this imports, `otlp-grpc` what gRPC needs.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

from jaxtop.base import debuglog
from jaxtop.base.names import reason
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.words import note

if TYPE_CHECKING:
    from collections.abc import Callable

# With these answers the collector says that it will never take this message.
_NEVER = (400, 413, 422)


class OtlpRoute(Protocol):
    """How messages of one kind reach the collector."""

    @property
    def is_refused(self) -> bool:
        """Whether the collector will not take the last message at another time, either."""
        ...

    def send(self, message: Any) -> str:
        """Send a message; return why it was not taken, or an empty text."""
        ...

    def close(self) -> None: ...


class _Session(requests.Session):
    """Remembers why the last message was not taken."""

    why = ""
    is_refused = False

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        self.why, self.is_refused = "no answer", False
        options["allow_redirects"] = False
        try:
            answer = super().send(request, **options)
        except requests.RequestException as error:
            self.why = reason(_root(error))
            raise
        self.why, self.is_refused = f"HTTP status {answer.status_code}", answer.status_code in _NEVER
        if 300 <= answer.status_code < 400:
            # The SDK would take it for success. To follow it would make the POST a GET without its body.
            raise requests.RequestException(self.why)
        return answer


def _root(error: BaseException) -> BaseException:
    """Return the error of Python itself that led to this one of a library; this one if there is none."""
    found: BaseException | None = error
    for _ in range(20):
        if found is None:
            return error
        if isinstance(found, OSError) and type(found).__module__ in {"builtins", "socket", "ssl"}:
            return found
        found = found.__cause__ or found.__context__
    return error


class _ByHttp:
    """Sends messages of one kind over HTTP."""

    def __init__(self, address: str, exporter: Callable[..., Any], *, compresses: bool) -> None:
        self._session = _Session()
        compression = Compression.Gzip if compresses else None
        self._exporter = exporter(endpoint=address, session=self._session, compression=compression)

    def send(self, message: Any) -> str:
        return "" if self._exporter.export(message).name == "SUCCESS" else self._session.why

    @property
    def is_refused(self) -> bool:
        return self._session.is_refused

    def close(self) -> None:
        self._exporter.shutdown()


class Signal:
    """Metrics or logs: what sends them, and whether the collector takes them. Changes are reported once."""

    def __init__(self, name: str, address: str, way: OtlpRoute) -> None:
        self._name, self._address, self._way = name, address, way
        self._missed = 0
        # What the caller dropped meanwhile.
        self.lost = 0

    def send(self, message: Any) -> bool:
        """Return whether the collector took the message."""
        try:
            why = self._way.send(message)
        except Exception as error:  # noqa: BLE001 - the next message may be taken
            debuglog.warning("otlp", f"sending {self._name} failed", error=error)
            why = reason(_root(error))
        is_taken = not why
        if is_taken and self._missed:
            lost = f", {self.lost} records were lost" if self.lost else ""
            self._report(f"takes {self._name} again; {self._missed} attempts had failed{lost}")
            self.lost = 0
        elif not is_taken and not self._missed:
            then = "these are lost" if self.is_refused else "trying again until it does"
            self._report(f"does not take {self._name}: {why}; {then}")
        self._missed = 0 if is_taken else self._missed + 1
        return is_taken

    @property
    def is_refused(self) -> bool:
        """Whether the collector will not take the last message at another time, either."""
        return self._way.is_refused

    def _report(self, what: str) -> None:
        note(f"the collector at {self._address} {what}")

    def close(self) -> None:
        self._way.close()


class OtlpCollector:
    """The metrics and logs of a collector that speaks OTLP over HTTP or gRPC."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            is_address = bool(parts.hostname) and parts.port != 0 and not (parts.query or parts.fragment)
        except ValueError:
            is_address = False
        if not is_address or parts.scheme not in _WAYS:
            raise UserError(
                "--otlp takes the address of a collector, such as http://localhost:4318 or grpc://localhost:4317"
            )
        names = [name for name in os.environ if name.startswith("OTEL_EXPORTER_OTLP")]
        # Else the environment says whether to compress.
        compresses = not any("COMPRESSION" in name for name in names)
        try:
            metrics, logs = _WAYS[parts.scheme](url, compresses=compresses)
        except ValueError as error:
            raise UserError(f"one of {', '.join(sorted(names))} cannot be used: {error}") from None
        shown = parts.netloc.rpartition("@")[2]  # before it there may be a password
        self.metrics = Signal("metrics", shown, metrics)
        self.logs = Signal("logs", shown, logs)


def _by_http(url: str, *, compresses: bool) -> tuple[OtlpRoute, OtlpRoute]:
    # Its reports would stand between ours.
    logger = logging.getLogger("opentelemetry")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    base = url.rstrip("/")
    return (
        _ByHttp(f"{base}/v1/metrics", OTLPMetricExporter, compresses=compresses),
        _ByHttp(f"{base}/v1/logs", OTLPLogExporter, compresses=compresses),
    )


def _by_grpc(url: str, *, compresses: bool) -> tuple[OtlpRoute, OtlpRoute]:
    try:
        from jaxtop.features.metrics.otlp import collector_grpc  # an extra of its own
    except ImportError:
        raise UserError("--otlp grpc://… needs grpcio: pip install 'jaxtop[otlp-grpc]'") from None
    return collector_grpc.ways(url, compresses=compresses)


_WAYS = {"http": _by_http, "https": _by_http, "grpc": _by_grpc, "grpcs": _by_grpc}
