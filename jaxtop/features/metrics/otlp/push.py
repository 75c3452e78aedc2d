"""Sends the figures of a run, and what happens in it, to a collector of OpenTelemetry at an interval."""

from __future__ import annotations

import threading
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from jaxtop.base import debuglog
from jaxtop.features.metrics.otlp import Logs, Resources, metric_messages

if TYPE_CHECKING:
    from jaxtop.cli.serving.watched_cluster import WatchedCluster
    from jaxtop.features.metrics.otlp.collector import OtlpCollector

# Records that wait while the collector does not take them, and how many are sent at a time.
MAX_WAITING, AT_ONCE = 10_000, 500
# Seconds for what is left at the end.
LAST_S = 5.0


class Push:
    """A thread that sends the current figures, and what happened, at an interval, within a `with` block."""

    def __init__(
        self, watched: WatchedCluster, collector: OtlpCollector, detail: str, interval: float
    ) -> None:
        self._watched, self._collector, self._detail, self._interval = watched, collector, detail, interval
        self._logs = Logs()
        self._waiting: deque[Any] = deque(maxlen=MAX_WAITING)
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
        self._collector.logs.lost += max(0, len(self._waiting) + len(records) - MAX_WAITING)
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
