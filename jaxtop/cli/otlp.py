"""Sends metrics and logs to a collector of OpenTelemetry. The extra `otlp` installs what this imports."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

from jaxtop import debuglog
from jaxtop.cli.errors import UserError
from jaxtop.export.otlp import Logs, Resources, metric_messages
from jaxtop.names import legible, reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.cli.watched import Watched

# Records that wait while the collector does not take them, and how many are sent at a time.
MOST_WAITING, AT_ONCE = 10_000, 500
# Seconds for what is left at the end.
LAST_S = 5.0
# With these answers the collector says that it will never take this message.
_NEVER = (400, 413, 422)


class _Session(requests.Session):
    """Remembers why the last message was not taken."""

    why = ""
    status = 0

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        self.why, self.status = "no answer", 0
        options["allow_redirects"] = False
        try:
            answer = super().send(request, **options)
        except requests.RequestException as error:
            self.why = reason(_root(error))
            raise
        self.why, self.status = f"HTTP status {answer.status_code}", answer.status_code
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


class Signal:
    """Metrics or logs: what sends them, and whether the collector takes them. Changes are reported once."""

    def __init__(self, name: str, address: str, session: _Session, exporter: Any) -> None:
        self._name, self._address, self._session, self._exporter = name, address, session, exporter
        self._missed = 0
        # What the caller dropped meanwhile.
        self.lost = 0

    def send(self, message: Any) -> bool:
        """Return whether the collector took the message."""
        try:
            is_taken = bool(self._exporter.export(message).name == "SUCCESS")
            why = self._session.why
        except Exception as error:  # noqa: BLE001 - the next message may be taken
            debuglog.warning("otlp", f"sending {self._name} failed", error=error)
            is_taken, why = False, reason(_root(error))
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
        return self._session.status in _NEVER

    def _report(self, what: str) -> None:
        print(legible(f"jaxtop: the collector at {self._address} {what}"), file=sys.stderr, flush=True)

    def close(self) -> None:
        self._exporter.shutdown()


class Collector:
    """The two addresses of a collector that speaks OTLP over HTTP."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_address = False
        if not is_address or parts.query or parts.fragment:
            raise UserError("--otlp takes the address of a collector, such as http://localhost:4318")
        # Its reports would stand between ours.
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        shown = parts.netloc.rpartition("@")[2]  # before it there may be a password

        def signal(name: str, exporter: Callable[..., Any]) -> Signal:
            session = _Session()
            its = {"endpoint": f"{url.rstrip('/')}/v1/{name}", "session": session}
            if not any("COMPRESSION" in each for each in os.environ if each.startswith("OTEL_EXPORTER_OTLP")):
                its["compression"] = Compression.Gzip
            return Signal(name, shown, session, exporter(**its))

        self.metrics = signal("metrics", OTLPMetricExporter)
        self.logs = signal("logs", OTLPLogExporter)


class Push:
    """A thread that sends the current figures, and what happened, at an interval, within a `with` block."""

    def __init__(self, watched: Watched, collector: Collector, detail: str, interval: float) -> None:
        self._watched, self._collector, self._detail, self._interval = watched, collector, detail, interval
        self._logs = Logs()
        self._waiting: deque[Any] = deque(maxlen=MOST_WAITING)
        self._resources: Resources | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jaxtop otlp", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Send what happened last, if the collector takes it soon."""
        self._is_over.set()
        self._thread.join(LAST_S)
        self._collector.metrics.close()
        self._collector.logs.close()

    def _run(self) -> None:
        due = time.monotonic() + min(1.0, self._interval)  # by then most processes have answered
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(max(0.0, due - time.monotonic()))
            due = max(due + self._interval, time.monotonic())
            try:
                self.send()
            except Exception as error:  # noqa: BLE001 - the next moment may be sent
                debuglog.warning("otlp", "a moment was not sent", error=error)

    def send(self) -> None:
        """Send the current moment. Metrics that are not taken are dropped, logs wait."""
        cluster, now = self._watched.copy()
        self._resources = Resources(cluster, now, self._resources)
        records = self._logs.take(cluster, now, self._resources)
        self._collector.logs.lost += max(0, len(self._waiting) + len(records) - MOST_WAITING)
        self._waiting.extend(records)
        for message in metric_messages(cluster, now, self._detail, self._resources):
            if not self._collector.metrics.send(message) and not self._collector.metrics.is_refused:
                break
        logs = self._collector.logs
        while self._waiting:
            some = list(islice(self._waiting, AT_ONCE))
            if not logs.send(some):
                if not logs.is_refused:
                    break
                logs.lost += len(some)
            for _ in some:
                self._waiting.popleft()
