"""`jaxtop exporter`: follow a run, and serve its figures to Prometheus and to scripts over HTTP."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.cli import settings, targets, terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.http_server import Page, Protection, Server, address
from jaxtop.cli.processes import end_with_sigterm
from jaxtop.clock import steady
from jaxtop.model import Cluster, State, findings, host_views
from jaxtop.model.findings.observer import check_every

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from jaxtop.sources import Source

PORT = 9410
POLL = 0.25
JSON, TEXT = "application/json", "text/plain; charset=utf-8"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    parser.add_argument(
        "--listen",
        default=f"127.0.0.1:{PORT}",
        metavar="ADDRESS",
        help=f"address to serve on (default: 127.0.0.1:{PORT})",
    )
    parser.add_argument(
        "--detail",
        choices=("run", "host", "device", "program"),
        default="program",
        help="bounds the number of series: figures of runs, hosts, devices, or programs too (default)",
    )
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate, to serve with TLS")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's key")
    parser.add_argument("--auth", type=Path, metavar="FILE", help="file with lines of user:password")


def main(arguments: argparse.Namespace) -> int:
    try:
        import prometheus_client  # noqa: F401 - the error must come before anything is served
    except ImportError:
        raise UserError("exporter needs prometheus-client: pip install 'jaxtop[exporter]'") from None
    host, port = address(arguments.listen, PORT)
    watched = Watched(Cluster(tuning=settings.load().tuning))
    protection = Protection(arguments.tls_cert, arguments.tls_key, arguments.auth)
    source = targets.open_source(arguments)
    try:
        server = Server(host, port, pages(watched, arguments.detail), protection)
        end_with_sigterm()
        terminal.collect_rarely()
        print(f"jaxtop: serves {server.url}/metrics", file=sys.stderr, flush=True)
        with server:
            while True:
                watched.take(source)
    except KeyboardInterrupt:
        return 0
    finally:
        source.close()


class Watched:
    """The cluster, folded on one thread and read on others."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = steady) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = threading.Lock()
        self._notes: list[str] = []

    def take(self, source: Source) -> None:
        """Fold what arrives within a moment."""
        frames = source.poll(POLL)
        with self._lock:
            for frame in frames:
                self._cluster.feed(frame)
            now = self._clock()
            if now - self._cluster.findings.checked_at >= 2 * check_every(self._cluster):
                self._cluster.check(now)  # no message led to a check: all processes are silent
            self._notes = source.notes
        time.sleep(0)  # readers that wait for the lock come first

    def read(self, write: Callable[[Cluster, float], Page]) -> Page:
        with self._lock:
            return write(self._cluster, self._clock())

    def health(self) -> Page:
        """Return 200 while a process is live, else 503 and why."""

        def write(cluster: Cluster, now: float) -> Page:
            states = [view.state for view in host_views(cluster, now)]
            live = states.count(State.LIVE)
            words = f"{live} of {len(states)} processes are live"
            return Page("\n".join([words, *self._notes, ""]).encode(), TEXT, 200 if live else 503)

        return self.read(write)


def pages(watched: Watched, detail: str) -> Mapping[str, Callable[[str], Page]]:
    """Return what is served, by path."""
    from jaxtop.export import to_json
    from jaxtop.export.findings import as_value
    from jaxtop.export.prometheus import exposition

    def found(cluster: Cluster, now: float) -> Page:
        document = {"schema": 1, "findings": [as_value(each, now) for each in findings(cluster)]}
        return Page(json.dumps(document, indent=2).encode() + b"\n", JSON)

    return {
        "/metrics": lambda accept: watched.read(
            lambda cluster, now: Page(*exposition(cluster, now, accept, detail))
        ),
        "/api/snapshot": lambda _: watched.read(
            lambda cluster, now: Page(to_json(cluster, now).encode(), JSON)
        ),
        "/api/findings": lambda _: watched.read(found),
        "/healthz": lambda _: watched.health(),
    }
